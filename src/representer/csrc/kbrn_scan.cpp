// kbrn_scan: the C entry points.
#include "kbrn_backward.hpp"

#include "entry.hpp"

REPRESENTER_DIRECTIONS(kbrn, RepresenterKbrn, kbrn)
