// string_scan backward: the C entry points.
#include "string_backward.hpp"

#include "entry.hpp"

REPRESENTER_ENTRIES(string_backward, RepresenterStringBackward, string_backward)
REPRESENTER_ENTRIES(string_few, RepresenterFew, string_few)
