// adam_rows: the C entry points.
#include "entry.hpp"

#include "adam_rows.hpp"

REPRESENTER_ENTRIES(adam_rows, RepresenterAdam, adam_rows)
