// rkm_scan backward: the C entry points.
#include "rkm_backward.hpp"

#include "entry.hpp"

REPRESENTER_ENTRIES(rkm_backward, RepresenterBackward, backward)
REPRESENTER_ENTRIES(rkm_few, RepresenterFew, rkm_few)
