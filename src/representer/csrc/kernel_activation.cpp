// kernel_activation: the C entry points.
#include "kernel_activation.hpp"

#include "entry.hpp"

REPRESENTER_ENTRIES(activation_forward, RepresenterActivation, activation_forward)
REPRESENTER_ENTRIES(activation_backward, RepresenterActivation, activation_backward)
