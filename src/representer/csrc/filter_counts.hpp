// Features of series: how often, and how far, the outputs of filters with nine taps exceed thresholds.
//
// A filter has three taps of weight 2 and six of -1, so that its output is three times the sum of three values minus
// the sum of all nine: additions only, in the order of kernels/convolution_kernel.py, so that no output differs from
// those there. A block of steps is small enough that the values of all taps stay in the first cache.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "core.hpp"
#include "parallel.hpp"
#include "status.hpp"
#include "vec.hpp"

namespace representer {
namespace REPRESENTER_ISA {

constexpr int TAPS = 9;
constexpr int64_t STEPS = 512;  // of a block

// As many doubles as a vector has lanes.
template <class Real> struct Doubles {
    typedef double Wide __attribute__((vector_size(REPRESENTER_BYTES)));
};
template <> struct Doubles<float> {
    typedef double Wide __attribute__((vector_size(2 * REPRESENTER_BYTES)));
};

// Add to the sums of each threshold: the steps whose outputs exceed it, and by how much.
template <class Real, bool EXCESS>
REPRESENTER_INLINE void exceed(const Real* z, int64_t steps, const Real* bounds, int64_t count, double* counts, double* excess) {
    constexpr int V = Lanes<Real>::n;
    using Wide = typename Doubles<Real>::Wide;
    for (int64_t j = 0; j < count; ++j) {
        const Vec<Real> bound = splat(bounds[j]);
        Int<Real> hits{};
        Wide sums{};
        for (int64_t t = 0; t < steps; t += V) {
            const Vec<Real> above = load(z + t) - bound;
            const Int<Real> is_above = load(z + t) > bound;
            hits -= is_above;
            if constexpr (EXCESS) {
                const Vec<Real> kept = above <= Vec<Real>{} ? Vec<Real>{} : above;  // NaN is kept
                sums += __builtin_convertvector(kept, Wide);
            }
        }
        int64_t total = 0;
        double sum = 0;
        for (int v = 0; v < V; ++v) total += hits[v], sum += EXCESS ? sums[v] : 0;
        counts[j] += double(total);
        if constexpr (EXCESS) excess[j] += sum;
    }
}

template <class Real> void count_series(const RepresenterFilters& p, int64_t n) {
    constexpr int V = Lanes<Real>::n;
    const int64_t length = p.lengths[n], width = p.steps + (TAPS - 1) * p.dilation;
    const Real* x = static_cast<const Real*>(p.x) + n * width;
    const Real* bounds = static_cast<const Real*>(p.bounds);
    double* counts = p.counts + n * p.rows * p.thresholds;
    double* excess = p.excess ? p.excess + n * p.rows * p.thresholds : nullptr;
    std::fill(counts, counts + p.rows * p.thresholds, 0.0);
    if (excess) std::fill(excess, excess + p.rows * p.thresholds, 0.0);
    std::vector<Real> taps(TAPS * STEPS), total(STEPS), z(STEPS);
    const Real never = -std::numeric_limits<Real>::infinity();
    for (int64_t first = 0; first < length; first += STEPS) {
        const int64_t steps = std::min(STEPS, length - first);
        for (int k = 0; k < TAPS; ++k) std::copy_n(x + first + k * p.dilation, steps, &taps[k * STEPS]);
        for (int64_t t = 0; t < STEPS; t += V) {
            Vec<Real> sum = load(&taps[t]);
            for (int k = 1; k < TAPS; ++k) sum += load(&taps[k * STEPS + t]);
            store(&total[t], sum);
        }
        const int64_t padded = (steps + V - 1) / V * V;
        for (int64_t r = 0; r < p.rows; ++r) {
            const int64_t* triple = p.triples + 3 * r;
            for (int64_t t = 0; t < padded; t += V) {
                const Vec<Real> all = load(&total[t]);
                if (triple[0] < 0) {
                    store(&z[t], all / splat(Real(TAPS)));
                    continue;
                }
                const Vec<Real> three = load(&taps[triple[0] * STEPS + t]) + load(&taps[triple[1] * STEPS + t]) + load(&taps[triple[2] * STEPS + t]);
                store(&z[t], (three + three) + three - all);  // 3 x is rounded once, as here
            }
            std::fill(z.begin() + steps, z.begin() + padded, never);
            const int64_t start = r * p.thresholds;
            if (excess) exceed<Real, true>(z.data(), padded, bounds + start, p.thresholds, counts + start, excess + start);
            else exceed<Real, false>(z.data(), padded, bounds + start, p.thresholds, counts + start, nullptr);
        }
    }
}

template <class Real> int filter_counts(const RepresenterFilters& p) {
    for (int64_t i = 0; i < 3 * p.rows; ++i)
        if (p.triples[i] >= TAPS || (p.triples[i] < 0) != (p.triples[i / 3 * 3] < 0)) return UNSUPPORTED;
    for (int64_t n = 0; n < p.series; ++n)
        if (p.lengths[n] < 0 || p.lengths[n] > p.steps) return UNSUPPORTED;
    parallel_for<DYNAMIC>(p.series, p.threads, [&](int64_t n) { count_series<Real>(p, n); });
    return OK;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
