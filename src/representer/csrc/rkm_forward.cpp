// rkm_scan forward: the C entry points.
#include "rkm_forward.hpp"

#include "entry.hpp"

REPRESENTER_ENTRY(rkm_forward, f32, RepresenterForward, forward<float, false>)
REPRESENTER_ENTRY(rkm_forward, f64, RepresenterForward, forward<double, false>)
REPRESENTER_ENTRY(rkm_pack, f32, RepresenterForward, forward<float, true>)
REPRESENTER_ENTRY(rkm_pack, f64, RepresenterForward, forward<double, true>)
