// gated_scan: the C entry points.
#include "gated_scan.hpp"

#include "entry.hpp"

REPRESENTER_DIRECTIONS(scan, RepresenterScan, scan)
