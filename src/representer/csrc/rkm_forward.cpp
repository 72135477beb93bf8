// rkm_scan forward: the C entry points.
#include "rkm_forward.hpp"

#include "entry.hpp"

REPRESENTER_ENTRIES(rkm_forward, RepresenterForward, forward)
