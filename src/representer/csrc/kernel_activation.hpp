// f_i(a) = sum_k chi_ik g(a - c_ik) and its gradients (ops/kernel_activation).
//
// For the gradients of centers and coefficients, each interval accumulates moments about its lower
// center; one upward and one downward pass over the centers shift and sum them.
#pragma once

#include <algorithm>
#include <vector>

#include "core.hpp"
#include "expansion.hpp"
#include "parallel.hpp"
#include "tile.hpp"
#include "vec.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

// The kernel expansions of all features.
template <class Real, int DEGREE> std::vector<Expansion<Real, DEGREE>> expansions(const RepresenterActivation& p) {
    std::vector<Expansion<Real, DEGREE>> of(p.features);
    for (int64_t i = 0; i < p.features; ++i)
        of[i].build(static_cast<const Real*>(p.centers) + i * p.count, static_cast<const Real*>(p.coefficients) + i * p.count, p.count, p.green);
    return of;
}

// Rows transposed at a time, so that each feature is contiguous and its tables stay in the cache.
inline int64_t rows_at_once(int64_t features) { return std::max<int64_t>(64, std::min<int64_t>(480, 16384 / std::max<int64_t>(features, 1))); }

template <class Real, int DEGREE> void piecewise_forward(const RepresenterActivation& p) {
    const int64_t F = p.features, ROWS = rows_at_once(F);
    const auto of = expansions<Real, DEGREE>(p);
    const int64_t bands = std::max<int64_t>(1, std::min<int64_t>(p.threads, (p.rows + ROWS - 1) / ROWS));
    parallel_for(bands, p.threads, [&](int64_t band) {
        Workspace<Real> turned(ROWS * F, false);
        const int64_t end = share(p.rows, bands, band + 1);
        for (int64_t first = share(p.rows, bands, band); first < end; first += ROWS) {
            const int64_t rows = std::min(ROWS, end - first);
            transpose_matrix(static_cast<const Real*>(p.input) + first * F, rows, F, turned.at(0));
            for (int64_t i = 0; i < F; ++i) of[i].values(turned.at(i * rows), turned.at(i * rows), rows);
            transpose_matrix(turned.at(0), F, rows, static_cast<Real*>(p.output) + first * F);
        }
    });
}

template <class Real, int DEGREE>
__attribute__((noinline)) void center_gradients(
    const RepresenterActivation& p, const Expansion<Real, DEGREE>& e, int64_t feature, const typename Expansion<Real, DEGREE>::Sums& sums) {
    constexpr int P = DEGREE + 1;
    typedef Expansion<Real, DEGREE> Own;
    const int64_t K = p.count;
    const double sign = p.green == GREEN_RELU ? 0 : -1;
    const std::vector<double> moments = e.moments(sums);
    const Real* chi = static_cast<const Real*>(p.coefficients) + feature * K;
    Real *dc = static_cast<Real*>(p.grad_centers) + feature * K, *dchi = static_cast<Real*>(p.grad_coefficients) + feature * K;
    std::vector<double> under(K * 2);  // contributions of the inputs below each center
    double m[4] = {0, 0, 0, 0};
    for (int64_t k = 0; k < K; ++k) {
        if (k) Own::template lower<DEGREE>(m, double(e.centers[k - 1]) - double(e.centers[k]));
        double fresh[4] = {0, 0, 0, 0};
        for (int r = 0; r < P; ++r) fresh[r] = moments[k * P + r];  // about the previous center
        if (k) Own::template lower<DEGREE>(fresh, double(e.centers[k - 1]) - double(e.centers[k]));
        for (int r = 0; r < P; ++r) m[r] += fresh[r];
        under[2 * k] = m[DEGREE], under[2 * k + 1] = m[DEGREE - 1];
    }
    double over[4] = {0, 0, 0, 0};
    for (int64_t k = K - 1; k >= 0; --k) {
        if (k + 1 < K) Own::template lower<DEGREE>(over, double(e.centers[k + 1]) - double(e.centers[k]));
        for (int r = 0; r < P; ++r) over[r] += moments[(k + 1) * P + r];
        const int64_t place = e.order[k];
        dchi[place] = Real(over[DEGREE] + sign * under[2 * k]);
        int64_t first = k;  // inputs equal to this center were counted at the first coinciding one
        while (first && e.centers[first - 1] == e.centers[k]) --first;
        const double below = under[2 * k + 1] - (DEGREE == 1 ? sums.on[first] : 0);
        dc[place] = Real(-DEGREE * double(chi[place]) * (over[DEGREE - 1] + sign * below));
    }
}

template <class Real, int DEGREE> void piecewise_backward(const RepresenterActivation& p) {
    const int64_t F = p.features, ROWS = rows_at_once(F);
    const auto of = expansions<Real, DEGREE>(p);
    const int64_t bands = std::max<int64_t>(1, std::min<int64_t>(p.threads, (p.rows + ROWS - 1) / ROWS));
    std::vector<typename Expansion<Real, DEGREE>::Sums> sums(bands * F, typename Expansion<Real, DEGREE>::Sums(p.count));
    parallel_for(bands, p.threads, [&](int64_t band) {
        Workspace<Real> inputs(ROWS * F, false), grads(ROWS * F, false);
        const int64_t end = share(p.rows, bands, band + 1);
        for (int64_t first = share(p.rows, bands, band); first < end; first += ROWS) {
            const int64_t rows = std::min(ROWS, end - first);
            transpose_matrix(static_cast<const Real*>(p.input) + first * F, rows, F, inputs.at(0));
            transpose_matrix(static_cast<const Real*>(p.grad) + first * F, rows, F, grads.at(0));
            for (int64_t i = 0; i < F; ++i) of[i].slopes(inputs.at(i * rows), grads.at(i * rows), rows, sums[band * F + i]);
            transpose_matrix(grads.at(0), F, rows, static_cast<Real*>(p.grad_input) + first * F);
        }
    });
    for (int64_t i = 0; i < F; ++i) {
        for (int64_t band = 1; band < bands; ++band) sums[i].add(sums[band * F + i]);
        sums[i].settle();
        center_gradients<Real, DEGREE>(p, of[i], i, sums[i]);
    }
}

// The Gaussian kernel, summed over all centers; `column` holds one feature of a block of rows.
template <class Real> struct Bells {
    static constexpr int V = Lanes<Real>::n, ROWS = 256;
    const RepresenterActivation& p;
    const Real *c, *chi;
    const Real inverse;  // 1 / s^2

    Bells(const RepresenterActivation& all, int64_t feature)
        : p(all), c(static_cast<const Real*>(all.centers) + feature * all.count),
          chi(static_cast<const Real*>(all.coefficients) + feature * all.count),
          inverse(Real(1 / (all.bandwidth * all.bandwidth))) {}

    REPRESENTER_INLINE Vec<Real> bell(Vec<Real> u) const { return exponential<Real>(u * u * (Real(-0.5) * inverse)); }
    void forward(const Real* a, Real* y) const {
        for (int n = 0; n < ROWS; n += V) {
            const Vec<Real> at = load<Real>(a + n);
            Vec<Real> total{};
            for (int64_t k = 0; k < p.count; ++k) total += chi[k] * bell(at - c[k]);
            store<Real>(y + n, total);
        }
    }
    // sums: gradients of the position and coefficient of each center
    void backward(const Real* a, const Real* g, Real* dx, double* sums) const {
        for (int n = 0; n < ROWS; n += V) store<Real>(dx + n, Vec<Real>{});
        for (int64_t k = 0; k < p.count; ++k) {
            Vec<Real> pulls{}, weights{};
            for (int n = 0; n < ROWS; n += V) {
                const Vec<Real> u = load<Real>(a + n) - c[k], w = load<Real>(g + n) * bell(u);
                const Vec<Real> pull = w * u * (chi[k] * inverse);
                store<Real>(dx + n, load<Real>(dx + n) - pull);
                pulls += pull, weights += w;
            }
            for (int lane = 0; lane < V; ++lane) sums[2 * k] += pulls[lane], sums[2 * k + 1] += weights[lane];
        }
    }
};

template <class Real, bool BACKWARD> void bells(const RepresenterActivation& p) {
    constexpr int64_t ROWS = Bells<Real>::ROWS;
    const int64_t F = p.features, K = p.count;
    parallel_for(F, p.threads, [&](int64_t i) {
        const Bells<Real> own(p, i);
        Workspace<Real> a(ROWS), g(ROWS), out(ROWS);
        std::vector<double> sums(2 * K, 0.0);
        Real* result = static_cast<Real*>(BACKWARD ? p.grad_input : p.output) + i;
        for (int64_t first = 0; first < p.rows; first += ROWS) {
            const int64_t rows = std::min(ROWS, p.rows - first);
            for (int64_t n = 0; n < ROWS; ++n) {  // rows past the end have zero weight
                a.at(n)[0] = n < rows ? static_cast<const Real*>(p.input)[(first + n) * F + i] : Real(0);
                if (BACKWARD) g.at(n)[0] = n < rows ? static_cast<const Real*>(p.grad)[(first + n) * F + i] : Real(0);
            }
            BACKWARD ? own.backward(a.at(0), g.at(0), out.at(0), sums.data()) : own.forward(a.at(0), out.at(0));
            for (int64_t n = 0; n < rows; ++n) result[(first + n) * F] = out.at(n)[0];
        }
        if (BACKWARD)
            for (int64_t k = 0; k < K; ++k) {
                static_cast<Real*>(p.grad_centers)[i * K + k] = Real(sums[2 * k]);
                static_cast<Real*>(p.grad_coefficients)[i * K + k] = Real(sums[2 * k + 1]);
            }
    });
}

template <class Real> int activation_forward(const RepresenterActivation& p) {
    if (p.green == GREEN_GAUSSIAN) bells<Real, false>(p);
    else if (p.green == GREEN_CUBIC) piecewise_forward<Real, 3>(p);
    else piecewise_forward<Real, 1>(p);
    return 0;
}

template <class Real> int activation_backward(const RepresenterActivation& p) {
    if (p.green == GREEN_GAUSSIAN) bells<Real, true>(p);
    else if (p.green == GREEN_CUBIC) piecewise_backward<Real, 3>(p);
    else piecewise_backward<Real, 1>(p);
    return 0;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
