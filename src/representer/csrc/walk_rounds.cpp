// walk_rounds: the C entry points.
#include "walk_rounds.hpp"

#include "entry.hpp"

REPRESENTER_DIRECTIONS(rounds, RepresenterRounds, rounds)
