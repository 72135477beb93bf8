// The learned functions of the units of a network, for rows of one unit and many sequences.
//
// A line is part of the polynomials, and its gradient is read off their moments.
#pragma once

#include <vector>

#include "core.hpp"
#include "kernel_activation.hpp"

namespace representer {
namespace REPRESENTER_ISA {

template <class Real> inline RepresenterActivation tables_of(const RepresenterKbrn& p) {
    RepresenterActivation of{};
    of.features = p.units, of.count = p.count, of.green = p.green, of.bandwidth = p.bandwidth;
    of.centers = p.centers, of.coefficients = p.coefficients;
    of.grad_centers = p.grad_centers, of.grad_coefficients = p.grad_coefficients;
    return of;
}

// |u|, max(0, u) and |u|^3. Of each unit `width` sums: the moments of its intervals, and what lies on
// its centres.
template <class Real, int DEGREE> struct Piecewise {
    static constexpr int P = DEGREE + 1;
    const RepresenterKbrn& p;
    std::vector<Expansion<Real, DEGREE>> of;
    const int64_t width;

    explicit Piecewise(const RepresenterKbrn& all) : p(all), of(all.units), width((all.count + 1) * P + all.count) {
        for (int64_t i = 0; i < p.units; ++i) {
            of[i].build(static_cast<const Real*>(p.centers) + i * p.count, static_cast<const Real*>(p.coefficients) + i * p.count, p.count, p.green);
            if (!p.line) continue;
            const Real *line = static_cast<const Real*>(p.line) + 2 * i;
            for (auto& piece : of[i].pieces) {
                piece.taylor[0] += line[0] * piece.base + line[1];
                piece.taylor[1] += line[0], piece.touching += line[0];
            }
        }
    }
    REPRESENTER_INLINE void values(int64_t unit, const Real* a, Real* h, int lanes) const {
        const Expansion<Real, DEGREE>& e = of[unit];
        for (int n = 0; n < lanes; ++n) h[n] = e.value(a[n], e.below(a[n]));
    }
    // dh becomes dh times the slope
    REPRESENTER_INLINE void slopes(int64_t unit, const Real* a, Real* dh, int lanes, double* sums) const {
        const Expansion<Real, DEGREE>& e = of[unit];
        double* on = sums + (p.count + 1) * P;
        for (int n = 0; n < lanes; ++n) {
            const Real at = a[n], w = dh[n];
            const int64_t j = e.below(at);
            dh[n] = w * e.slope(at, j);
            const Real t = at - e.pieces[j].base;
            double* m = sums + j * P;
            Real power = w;
            for (int r = 0; r < P; ++r, power *= t) m[r] += power;
            if (DEGREE == 1 && __builtin_expect(e.centers[j] == at && j < p.count, 0)) on[j] += w;
        }
    }
    void finish(int64_t unit, const double* sums) const {
        centre_gradients<Real, DEGREE>(tables_of<Real>(p), of[unit], unit, sums);
        if (!p.grad_line) return;
        double theta = 0, nu = 0;
        for (int64_t j = 0; j <= p.count; ++j)
            nu += sums[j * P], theta += sums[j * P + 1] + double(of[unit].pieces[j].base) * sums[j * P];
        Real* grad = static_cast<Real*>(p.grad_line) + 2 * unit;
        grad[0] = Real(theta), grad[1] = Real(nu);
    }
};

// The Gaussian, over all centres. Of each unit the sums for positions, coefficients, and the line.
template <class Real> struct Bell {
    static constexpr int V = Lanes<Real>::n;
    const RepresenterKbrn& p;
    const RepresenterActivation tables;
    const int64_t width;
    const Real inverse;  // 1 / s^2

    explicit Bell(const RepresenterKbrn& all)
        : p(all), tables(tables_of<Real>(all)), width(2 * all.count + 2), inverse(Real(1 / (all.bandwidth * all.bandwidth))) {}

    // rows hold whole vectors
    REPRESENTER_INLINE void values(int64_t unit, const Real* a, Real* h, int lanes) const {
        const Bells<Real> own(tables, unit);
        const Real theta = p.line ? static_cast<const Real*>(p.line)[2 * unit] : 0, nu = p.line ? static_cast<const Real*>(p.line)[2 * unit + 1] : 0;
        for (int n = 0; n < lanes; n += V) {
            const Vec<Real> at = load<Real>(a + n);
            Vec<Real> total = theta * at + nu;
            for (int64_t k = 0; k < p.count; ++k) total += own.chi[k] * own.bell(at - own.c[k]);
            store<Real>(h + n, total);
        }
    }
    REPRESENTER_INLINE void slopes(int64_t unit, const Real* a, Real* dh, int lanes, double* sums) const {
        const Bells<Real> own(tables, unit);
        const Real theta = p.line ? static_cast<const Real*>(p.line)[2 * unit] : 0;
        for (int n = 0; n < lanes; n += V) {
            const Vec<Real> at = load<Real>(a + n), w = load<Real>(dh + n);
            Vec<Real> slope = splat(theta);
            for (int64_t k = 0; k < p.count; ++k) {
                const Vec<Real> u = at - own.c[k], bell = own.bell(u), pull = u * bell * (own.chi[k] * inverse);
                slope -= pull;
                sums[2 * k] += double(sum<Real>(w * pull)), sums[2 * k + 1] += double(sum<Real>(w * bell));
            }
            sums[2 * p.count] += double(sum<Real>(w * at)), sums[2 * p.count + 1] += double(sum<Real>(w));
            store<Real>(dh + n, w * slope);
        }
    }
    void finish(int64_t unit, const double* sums) const {
        for (int64_t k = 0; k < p.count; ++k) {
            static_cast<Real*>(p.grad_centers)[unit * p.count + k] = Real(sums[2 * k]);
            static_cast<Real*>(p.grad_coefficients)[unit * p.count + k] = Real(sums[2 * k + 1]);
        }
        for (int r = 0; r < 2 && p.grad_line; ++r) static_cast<Real*>(p.grad_line)[2 * unit + r] = Real(sums[2 * p.count + r]);
    }
};

}  // namespace REPRESENTER_ISA
}  // namespace representer
