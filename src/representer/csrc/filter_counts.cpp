// filter_counts: the C entry points.
#include "entry.hpp"

#include "filter_counts.hpp"

REPRESENTER_ENTRIES(filter_counts, RepresenterFilters, filter_counts)
