// separable_convolution: the C entry points.
#include "separable_convolution.hpp"

#include "entry.hpp"

REPRESENTER_DIRECTIONS(separable, RepresenterSeparable, separable)
