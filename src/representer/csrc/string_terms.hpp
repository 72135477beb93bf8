// One step of the chain of states of a vector of units, representer/functional/strings.py.
#pragma once

#include "core.hpp"
#include "vec.hpp"

namespace representer {
namespace REPRESENTER_ISA {

enum Combine { MULTIPLY, ADD, ADD_EXACT };
enum Normalized { NO, PAPER, EXACT };

inline bool has_mass(const RepresenterChain& chain) { return chain.combine == ADD_EXACT || chain.normalized == EXACT; }

// Return c / m, or 0 where m is 0.
template <class Real> REPRESENTER_INLINE Vec<Real> by_mass(Vec<Real> c, Vec<Real> m) {
    return m == Real(0) ? Vec<Real>{} : c / m;
}

// Advance the states of a vector of units, `stride` apart, and return the activation of the readout. product(k) is the
// k-th product with x; keep(k, state) is called with each new state. ORDER is n if known at compile time, else 0.
template <class Real, int ORDER, class Product, class Keep>
REPRESENTER_INLINE Vec<Real> advance(
    const RepresenterChain& chain, Vec<Real> lam, Real* state, int64_t stride, Product product, Keep keep) {
    const int64_t n = ORDER ? ORDER : chain.order;
    const bool mass = has_mass(chain);
    const Vec<Real> w = chain.normalized == PAPER ? Real(1) - lam : splat<Real>(1);
    Vec<Real> s{};
#pragma GCC unroll 3
    for (int64_t k = n - 1; k >= 0; --k) {  // descending: reads the values of the previous step
        Vec<Real> joined = product(k), m{};
        Real *c_k = state + k * stride, *m_k = state + (n + k) * stride;
        const Vec<Real> lighter = mass && k ? load<Real>(m_k - stride) : splat<Real>(1);
        if (k) {
            const Vec<Real> shorter = load<Real>(c_k - stride);
            joined = chain.combine == MULTIPLY ? shorter * joined
                     : chain.combine == ADD    ? shorter + joined
                                               : shorter + lighter * joined;
        }
        const Vec<Real> c = lam * load<Real>(c_k) + w * joined;
        store<Real>(c_k, c);
        keep(k, c);
        if (mass) {
            store<Real>(m_k, m = lam * load<Real>(m_k) + w * lighter);
            keep(n + k, m);
        }
        if (chain.sums || k == n - 1) s += chain.normalized == EXACT ? by_mass<Real>(c, m) : c;
    }
    return value<Real>(chain.activation, s);
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
