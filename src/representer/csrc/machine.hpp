// Peak throughput of the machine, for the benchmarks: multiply-adds in registers, and
// memory bandwidth.
#pragma once

#include "core.hpp"
#include "vec.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

constexpr int CHAINS = 12;  // enough to hide the latency, few enough for 16 registers

template <class Real> Real multiply_and_add(int64_t rounds, Real start) {
    const Vec<Real> factor = splat<Real>(start), added = splat<Real>(1) - factor;
    Vec<Real> chain[CHAINS], total{};
    for (int i = 0; i < CHAINS; ++i) chain[i] = splat<Real>(Real(i));
    for (int64_t round = 0; round < rounds; ++round)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; ++i) chain[i] = chain[i] * factor + added;
    for (int i = 0; i < CHAINS; ++i) total += chain[i];
    return sum<Real>(total);
}

// `count` rounds of all chains on every thread.
template <class Real> int arithmetic(const RepresenterProbe& p) {
    Real total = 0;
#pragma omp parallel for num_threads(p.threads) if (p.threads > 1) schedule(static, 1) reduction(+ : total)
    for (int32_t i = 0; i < p.threads; ++i) total += multiply_and_add<Real>(p.count, *static_cast<const Real*>(p.a));
    *static_cast<Real*>(p.c) = total;  // keeps the compiler from eliminating the loop
    *p.done = 2.0 * CHAINS * Lanes<Real>::n * double(p.count) * p.threads;
    return 0;
}

// c = a b + a reads two arrays and writes one, the access pattern of gated_scan.
template <class Real> int memory(const RepresenterProbe& p) {
    constexpr int V = Lanes<Real>::n;
#pragma omp parallel for num_threads(p.threads) if (p.threads > 1) schedule(static, 1)
    for (int32_t i = 0; i < p.threads; ++i)
        for (int64_t j = share(p.count, p.threads, i); j < share(p.count, p.threads, i + 1); j += V) {
            const int64_t left = share(p.count, p.threads, i + 1) - j;
            const int count = left < V ? int(left) : V;
            const Vec<Real> a = load(static_cast<const Real*>(p.a) + j, count);
            store(static_cast<Real*>(p.c) + j, a * load(static_cast<const Real*>(p.b) + j, count) + a, count);
        }
    *p.done = 3.0 * double(p.count) * sizeof(Real);
    return 0;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
