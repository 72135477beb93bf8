// kernel_activation: the C entry points.
#include "kernel_activation.hpp"

#include "entry.hpp"

REPRESENTER_ENTRIES(activation_forward, RepresenterActivation, activation_forward)
REPRESENTER_ENTRIES(activation_backward, RepresenterActivation, activation_backward)

namespace representer {
namespace REPRESENTER_ISA {

template struct Expansion<float, 1>;  // for kbrn_scan
template struct Expansion<float, 3>;
template struct Expansion<double, 1>;
template struct Expansion<double, 3>;

}  // namespace REPRESENTER_ISA
}  // namespace representer
