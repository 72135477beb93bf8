// f_i(a) = sum_k chi_ik g(a - c_ik) and its gradients (ops/kernel_activation).
//
// For the gradients of centres and coefficients the inputs of each interval leave their moments about
// the centre below, and two passes over the centres, one up and one down, shift and add them.
#pragma once

#include <algorithm>
#include <vector>

#include "core.hpp"
#include "expansion.hpp"
#include "vec.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

template <class Real, int DEGREE> void piecewise_forward(const RepresenterActivation& p) {
    const int64_t F = p.features, BLOCK = 512;
    std::vector<Expansion<Real, DEGREE>> of(F);
    for (int64_t i = 0; i < F; ++i)
        of[i].build(static_cast<const Real*>(p.centers) + i * p.count, static_cast<const Real*>(p.coefficients) + i * p.count, p.count, p.green);
    const int64_t blocks = (p.rows + BLOCK - 1) / BLOCK;
#pragma omp parallel for num_threads(p.threads) if (p.threads > 1) schedule(static)
    for (int64_t block = 0; block < blocks; ++block) {
        const int64_t last = std::min(p.rows, (block + 1) * BLOCK);
        for (int64_t i = 0; i < F; ++i) {
            const Expansion<Real, DEGREE>& e = of[i];
            const Real* x = static_cast<const Real*>(p.input) + i;
            Real* y = static_cast<Real*>(p.output) + i;
            for (int64_t n = block * BLOCK; n < last; ++n) y[n * F] = e.value(x[n * F], e.below(x[n * F]));
        }
    }
}

template <class Real, int DEGREE>
void centre_gradients(const RepresenterActivation& p, const Expansion<Real, DEGREE>& e, int64_t feature, const double* moments) {
    constexpr int P = DEGREE + 1;
    typedef Expansion<Real, DEGREE> Own;
    const int64_t K = p.count;
    const double sign = p.green == GREEN_RELU ? 0 : -1, *on = moments + (K + 1) * P;
    const Real* chi = static_cast<const Real*>(p.coefficients) + feature * K;
    Real *dc = static_cast<Real*>(p.grad_centers) + feature * K, *dchi = static_cast<Real*>(p.grad_coefficients) + feature * K;
    std::vector<double> under(K * 2);  // what the inputs below each centre give
    double m[4] = {0, 0, 0, 0};
    for (int64_t k = 0; k < K; ++k) {
        if (k) Own::template lower<DEGREE>(m, double(e.centers[k - 1]) - double(e.centers[k]));
        double fresh[4] = {0, 0, 0, 0};
        for (int r = 0; r < P; ++r) fresh[r] = moments[k * P + r];  // about the centre before
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
        int64_t first = k;  // inputs on this centre were counted below the first at its place
        while (first && e.centers[first - 1] == e.centers[k]) --first;
        const double below = under[2 * k + 1] - (DEGREE == 1 ? on[first] : 0);
        dc[place] = Real(-DEGREE * double(chi[place]) * (over[DEGREE - 1] + sign * below));
    }
}

template <class Real, int DEGREE> void piecewise_backward(const RepresenterActivation& p) {
    constexpr int P = DEGREE + 1;
    const int64_t F = p.features, K = p.count, BLOCK = 512, width = (K + 1) * P + K;
    std::vector<Expansion<Real, DEGREE>> of(F);
    for (int64_t i = 0; i < F; ++i)
        of[i].build(static_cast<const Real*>(p.centers) + i * K, static_cast<const Real*>(p.coefficients) + i * K, K, p.green);
    // of every interval the moments, and of every centre what lies on it; one copy a thread
    const int64_t bands = std::max<int64_t>(1, std::min<int64_t>(p.threads, (p.rows + BLOCK - 1) / BLOCK));
    std::vector<double> sums(bands * F * width, 0.0);
#pragma omp parallel for num_threads(p.threads) if (bands > 1) schedule(static)
    for (int64_t band = 0; band < bands; ++band) {
        std::vector<Real> block(width);  // few enough rows for sums in Real
        const int64_t end = share(p.rows, bands, band + 1);
        for (int64_t first = share(p.rows, bands, band); first < end; first += BLOCK) {
            const int64_t last = std::min(end, first + BLOCK);
            for (int64_t i = 0; i < F; ++i) {
                const Expansion<Real, DEGREE>& e = of[i];
                const Real *x = static_cast<const Real*>(p.input) + i, *g = static_cast<const Real*>(p.grad) + i;
                Real *dx = static_cast<Real*>(p.grad_input) + i, *on = block.data() + (K + 1) * P;
                std::fill(block.begin(), block.end(), Real(0));
                for (int64_t n = first; n < last; ++n) {
                    const Real a = x[n * F], w = g[n * F];
                    const int64_t j = e.below(a);
                    dx[n * F] = w * e.slope(a, j);
                    const Real t = a - e.pieces[j].base;
                    Real *m = block.data() + j * P, power = w;
                    for (int r = 0; r < P; ++r, power *= t) m[r] += power;
                    if (DEGREE == 1 && __builtin_expect(e.centers[j] == a && j < K, 0)) on[j] += w;
                }
                double* own = sums.data() + (band * F + i) * width;
                for (int64_t r = 0; r < width; ++r) own[r] += block[r];
            }
        }
    }
    for (int64_t i = 0; i < F; ++i) {
        double* own = sums.data() + i * width;
        for (int64_t band = 1; band < bands; ++band)
            for (int64_t r = 0; r < width; ++r) own[r] += sums[(band * F + i) * width + r];
        centre_gradients<Real, DEGREE>(p, of[i], i, own);
    }
}

// The Gaussian, over all centres; `column` holds a feature of some rows.
template <class Real> struct Bells {
    static constexpr int V = Lanes<Real>::n, ROWS = 256;
    const RepresenterActivation& p;
    const Real *c, *chi;
    const Real inverse;  // 1 / s^2

    Bells(const RepresenterActivation& all, int64_t feature)
        : p(all), c(static_cast<const Real*>(all.centers) + feature * all.count),
          chi(static_cast<const Real*>(all.coefficients) + feature * all.count),
          inverse(Real(1 / (all.bandwidth * all.bandwidth))) {}

    REPRESENTER_INLINE Vec<Real> bell(Vec<Real> u) const { return exponential(u * u * (Real(-0.5) * inverse)); }
    void forward(const Real* a, Real* y) const {
        for (int n = 0; n < ROWS; n += V) {
            const Vec<Real> at = load<Real>(a + n);
            Vec<Real> total{};
            for (int64_t k = 0; k < p.count; ++k) total += chi[k] * bell(at - c[k]);
            store<Real>(y + n, total);
        }
    }
    // sums: of each centre what its position and its coefficient get
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
#pragma omp parallel for num_threads(p.threads) if (p.threads > 1) schedule(static)
    for (int64_t i = 0; i < F; ++i) {
        const Bells<Real> own(p, i);
        Workspace<Real> a(ROWS), g(ROWS), out(ROWS);
        std::vector<double> sums(2 * K, 0.0);
        Real* result = static_cast<Real*>(BACKWARD ? p.grad_input : p.output) + i;
        for (int64_t first = 0; first < p.rows; first += ROWS) {
            const int64_t rows = std::min(ROWS, p.rows - first);
            for (int64_t n = 0; n < ROWS; ++n) {  // rows beyond the last have no weight
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
    }
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
