// The cells of L19 Table 1 that have code of their own: with what distinguishes a cell known to the
// compiler, the pointwise part of a step takes four fifths of the time. All others share one code.
#pragma once

#include <cstring>

#include "core.hpp"
#include "vec.hpp"

namespace representer {
namespace REPRESENTER_ISA {

// By the number of gates: Linear Kernel, the same with an output gate, RKM-CIFG, RKM-LSTM.
constexpr RepresenterCell USUAL_CELLS[] = {
    {},
    {2, 1, 0, IDENTITY, TANH, 0, 1, 1},
    {2, 1, 1, IDENTITY, IDENTITY, 0, 2, 2},
    {1, 0, 1, IDENTITY, IDENTITY, 0, 3, 3},
    {0, 0, 1, IDENTITY, IDENTITY, 0, 4, 4},
};

// In float32 alone: in float64 they share the code of all others, which compiles faster.
template <class Real> constexpr bool HAS_USUAL = sizeof(Real) == 4;

template <class Real> inline bool is_usual(const RepresenterCell& cell) {
    return HAS_USUAL<Real> && cell.gates >= 1 && cell.gates <= 4 && !std::memcmp(&cell, &USUAL_CELLS[cell.gates], sizeof cell);
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
