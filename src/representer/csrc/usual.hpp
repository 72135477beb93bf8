// Specializations for the cells of L19 Table 1: with the options of the cell known at compile time, the
// pointwise part of a step takes four fifths of the time. All other cells use the generic code.
#pragma once

#include <cstring>

#include "core.hpp"
#include "vec.hpp"

namespace representer {
namespace REPRESENTER_ISA {

// Indexed by the number of gates: Linear Kernel, Linear Kernel with output gate, RKM-CIFG, RKM-LSTM.
constexpr RepresenterCell USUAL_CELLS[] = {
    {},
    {2, 1, 0, IDENTITY, TANH, 0, 1, 1},
    {2, 1, 1, IDENTITY, IDENTITY, 0, 2, 2},
    {1, 0, 1, IDENTITY, IDENTITY, 0, 3, 3},
    {0, 0, 1, IDENTITY, IDENTITY, 0, 4, 4},
};

// float32 only; float64 uses the generic code, to save compile time.
template <class Real> constexpr bool HAS_USUAL = sizeof(Real) == 4;

template <class Real> inline bool is_usual(const RepresenterCell& cell) {
    return HAS_USUAL<Real> && cell.gates >= 1 && cell.gates <= 4 && !std::memcmp(&cell, &USUAL_CELLS[cell.gates], sizeof cell);
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
