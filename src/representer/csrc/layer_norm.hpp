// Layer norm of the rows of a batch; both directions compute the moments identically.
#pragma once

#include <cstdint>

#include "vec.hpp"

namespace representer {
namespace REPRESENTER_ISA {

template <class Real> struct Moments {
    Real mean, scale;  // scale: 1 / sqrt(variance + epsilon)

    // Sum per lane: a single running sum in float32 loses several digits on long rows.
    Moments(const Real* row, int64_t H, double epsilon) {
        constexpr int V = Lanes<Real>::n;
        Vec<Real> total{}, squares{};
        for (int64_t j = 0; j < H; j += V) total += load(row + j, H - j < V ? int(H - j) : V);
        mean = Real(double(sum<Real>(total)) / double(H));
        for (int64_t j = 0; j < H; j += V) {
            const int count = H - j < V ? int(H - j) : V;
            Vec<Real> centered = load(row + j, count) - mean;
            for (int lane = count; lane < V; ++lane) centered[lane] = 0;
            squares += centered * centered;
        }
        scale = Real(1 / __builtin_sqrt(double(sum<Real>(squares)) / double(H) + epsilon));
    }
};

// Normalize in place; `norm` holds gain and bias (2, H).
template <class Real> inline void normalize(Real* row, const Real* norm, int64_t H, double epsilon) {
    constexpr int V = Lanes<Real>::n;
    const Moments<Real> moments(row, H, epsilon);
    for (int64_t j = 0; j < H; j += V) {
        const int count = H - j < V ? int(H - j) : V;
        const Vec<Real> normed = (load(row + j, count) - moments.mean) * moments.scale;
        store(row + j, normed * load(norm + j, count) + load(norm + H + j, count), count);
    }
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
