// string_scan forward: the C entry points.
#include "string_forward.hpp"

#include "entry.hpp"

REPRESENTER_ENTRIES(string_forward, RepresenterStringForward, string_forward)
REPRESENTER_ENTRIES(string_pack, RepresenterStringForward, string_pack)
