// Gradients that follow from those of the pre-activations, for so few rows that calls of a library would take longer.
#pragma once

#include <vector>

#include "gemm.hpp"
#include "panels.hpp"

namespace representer {
namespace REPRESENTER_ISA {

// to[o][k] = sum_r dz[r][o] rows[r][k]
template <class Real>
void sum_of_outer(const Real* dz, int64_t width, int64_t outputs, const std::vector<const Real*>& rows, int64_t K, Real* to) {
    constexpr int64_t AT_ONCE = 4;  // outputs, which share what is loaded
    for (int64_t first = 0; first < outputs; first += AT_ONCE) {
        const int64_t count = outputs - first < AT_ONCE ? outputs - first : AT_ONCE;
        each_vector<Real>(K, [&](int64_t k, int lanes) __attribute__((always_inline)) {
            Vec<Real> sums[AT_ONCE] = {};
            for (size_t r = 0; r < rows.size(); ++r) {
                const Vec<Real> seen = load(rows[r] + k, lanes);
                for (int64_t i = 0; i < AT_ONCE; ++i) sums[i] += splat(dz[r * width + first + (i < count ? i : 0)]) * seen;
            }
            for (int64_t i = 0; i < count; ++i) store(to + (first + i) * K + k, sums[i], lanes);
        });
    }
}

// to[r][k] = sum_o dz[r][o] weight[o][k] of up to M rows, as `product` adds them up but without packing
template <class Real, int M>
void product_of_rows(const Real* dz, int64_t rows, int64_t width, int64_t outputs, const Real* weight, int64_t K, Real* to) {
    for (int64_t start = 0; start < outputs; start += SLICE)
        each_vector<Real>(K, [&](int64_t k, int lanes) __attribute__((always_inline)) {
            Vec<Real> sums[M] = {};
            for (int64_t o = start; o < outputs && o < start + SLICE; ++o) {
                const Vec<Real> w = load(weight + o * K + k, lanes);
                for (int64_t r = 0; r < M; ++r) sums[r] += splat(dz[(r < rows ? r : 0) * width + o]) * w;
            }
            for (int64_t r = 0; r < rows; ++r) store(to + r * K + k, start ? load(to + r * K + k, lanes) + sums[r] : sums[r], lanes);
        });
}
template <class Real>
void product_of_dz(const Real* dz, int64_t rows, int64_t width, int64_t outputs, const void* weight, int64_t K, void* to, int threads) {
    const Real* w = static_cast<const Real*>(weight);
    if (rows == 1) return product_of_rows<Real, 1>(dz, rows, width, outputs, w, K, static_cast<Real*>(to));
    if (rows <= 4) return product_of_rows<Real, 4>(dz, rows, width, outputs, w, K, static_cast<Real*>(to));
    product<Real>({rows, K, outputs, threads, dz, w, to, width});
}

// Compute the gradients of the weights and the input of a call. `dz` has `width` columns, of which `outputs` from
// `first_seen` on depend on h; x_time and x_batch are the strides of x.
template <class Real, class Call>
void gradients_of_few(
    const Call& p, const RepresenterFew& few, const Real* dz, int64_t width, int64_t first_seen, int64_t outputs,
    int64_t x_time, int64_t x_batch) {
    const int64_t rows = p.time * p.batch, biased = p.biased * p.units;
    const Real *x = static_cast<const Real*>(p.x), *h0 = static_cast<const Real*>(p.h0), *output = static_cast<const Real*>(p.output);
    std::vector<const Real*> input(rows), before(rows);
    for (int64_t r = 0; r < rows; ++r) {
        input[r] = x + r / p.batch * x_time + r % p.batch * x_batch;
        before[r] = r < p.batch ? h0 + r * p.units : output + (r - p.batch) * p.units;
    }
    if (few.grad_bias)
        for (int64_t o = 0; o < biased; ++o) {
            Real sum = 0;
            for (int64_t r = 0; r < rows; ++r) sum += dz[r * width + width - biased + o];
            static_cast<Real*>(few.grad_bias)[o] = sum;
        }
    if (few.grad_input) sum_of_outer(dz, width, width, input, p.features, static_cast<Real*>(few.grad_input));
    if (few.grad_weight) sum_of_outer(dz + first_seen, width, outputs, before, p.units, static_cast<Real*>(few.grad_weight));
    if (few.grad_x) product_of_dz(dz, rows, width, width, p.input_weight, p.features, few.grad_x, few.threads);
    if (!few.grad_h0 || !outputs) return;
    const int64_t entries = p.batch * p.units;
    const Workspace<Real> of_h(entries, false);
    product_of_dz(dz + first_seen, p.batch, width, outputs, p.weight, p.units, of_h.at(0), few.threads);
    for (int64_t i = 0; i < entries; ++i) static_cast<Real*>(few.grad_h0)[i] += of_h.at(0)[i];
}

// Set what the gradients of both kinds of calls have in common. `spare` is for the gradients of the states that are not
// needed, those of c behind that of h.
template <class Real, class Backward, class Call>
void read_few(Backward& b, const Call& p, const RepresenterFew& few, Real* dz, Real* spare) {
    b.time = p.time, b.batch = p.batch, b.units = p.units, b.threads = few.threads;
    b.grad_output = few.grad_output, b.grad_time = few.grad_time, b.grad_batch = few.grad_batch;
    b.grad_h = few.grad_h, b.grad_c = few.grad_c, b.weight = p.weight, b.c0 = p.c0, b.grad_z = dz;
    b.extra_h = few.grad_h0 ? few.grad_h0 : spare, b.grad_c0 = few.grad_c0 ? few.grad_c0 : spare + p.batch * p.units;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
