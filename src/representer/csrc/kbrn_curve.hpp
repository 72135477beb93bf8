// The learned activations of a network, evaluated on rows of one unit and many sequences.
//
// The linear term is folded into the polynomials; its gradient follows from their moments.
#pragma once

#include <vector>

#include "core.hpp"
#include "kernel_activation.hpp"

namespace representer {
namespace REPRESENTER_ISA {

// Compiled in kernel_activation.cpp.
extern template struct Expansion<float, 1>;
extern template struct Expansion<float, 3>;
extern template struct Expansion<double, 1>;
extern template struct Expansion<double, 3>;

template <class Real> inline RepresenterActivation tables_of(const RepresenterKbrn& p) {
    RepresenterActivation of{};
    of.features = p.units, of.count = p.count, of.green = p.green, of.bandwidth = p.bandwidth;
    of.centers = p.centers, of.coefficients = p.coefficients;
    of.grad_centers = p.grad_centers, of.grad_coefficients = p.grad_coefficients;
    return of;
}

// Interface of the activations. It is virtual so that each pass is compiled only once.
template <class Real> struct Curve {
    virtual void values(int64_t unit, const Real* a, Real* h, int64_t lanes) const = 0;
    // Multiply dh by the slope, and accumulate the thread's sums for the gradients.
    virtual void slopes(int64_t thread, int64_t unit, const Real* a, Real* dh, int64_t lanes) = 0;
    virtual void finish() = 0;  // write the gradients of all units

  protected:
    ~Curve() = default;
};
template <class Real, class Function> struct CurveOf final : Curve<Real> {
    typedef typename Function::Sums Sums;
    const Function function;
    const int64_t units, threads;
    std::vector<Sums> sums;  // one per thread and unit

    CurveOf(const RepresenterKbrn& p, int64_t threads)
        : function(p), units(p.units), threads(threads), sums(threads * p.units, Sums(p.count)) {}
    void values(int64_t unit, const Real* a, Real* h, int64_t lanes) const override { function.values(unit, a, h, lanes); }
    void slopes(int64_t thread, int64_t unit, const Real* a, Real* dh, int64_t lanes) override {
        function.slopes(unit, a, dh, lanes, sums[thread * units + unit]);
    }
    void finish() override {
        for (int64_t i = 0; i < units; ++i) {
            for (int64_t thread = 1; thread < threads; ++thread) sums[i].add(sums[thread * units + i]);
            function.finish(i, sums[i]);
        }
    }
};

// |u|, max(0, u) and |u|^3.
template <class Real, int DEGREE> struct Piecewise {
    typedef typename Expansion<Real, DEGREE>::Sums Sums;
    const RepresenterKbrn& p;
    std::vector<Expansion<Real, DEGREE>> of;

    explicit Piecewise(const RepresenterKbrn& all) : p(all), of(expansions<Real, DEGREE>(tables_of<Real>(all))) {
        for (int64_t i = 0; p.line && i < p.units; ++i)
            of[i].add(static_cast<const Real*>(p.line)[2 * i], static_cast<const Real*>(p.line)[2 * i + 1]);
    }
    void values(int64_t unit, const Real* a, Real* h, int64_t lanes) const { of[unit].values(a, h, lanes); }
    void slopes(int64_t unit, const Real* a, Real* dh, int64_t lanes, Sums& sums) const { of[unit].slopes(a, dh, lanes, sums); }
    void finish(int64_t unit, Sums& sums) const {
        constexpr int P = DEGREE + 1;
        sums.settle();
        center_gradients<Real, DEGREE>(tables_of<Real>(p), of[unit], unit, sums);
        double theta = 0, nu = 0;
        for (size_t j = 0; j < sums.total.size() / P; ++j) {
            const double *m = &sums.total[j * P], base = of[unit].pieces[j / 2].base;
            nu += m[0], theta += m[1] + base * m[0];
        }
        if (p.grad_line) static_cast<Real*>(p.grad_line)[2 * unit] = Real(theta), static_cast<Real*>(p.grad_line)[2 * unit + 1] = Real(nu);
    }
};

// The Gaussian kernel, summed over all centers.
template <class Real> struct Bell {
    static constexpr int V = Lanes<Real>::n;
    const RepresenterKbrn& p;
    const RepresenterActivation tables;
    const Real inverse;  // 1 / s^2

    // Gradient sums for the position and coefficient of each center, and for the line.
    struct Sums {
        std::vector<double> total;
        explicit Sums(int64_t centers) : total(2 * centers + 2) {}
        void add(const Sums& other) {
            for (size_t r = 0; r < total.size(); ++r) total[r] += other.total[r];
        }
    };

    explicit Bell(const RepresenterKbrn& all)
        : p(all), tables(tables_of<Real>(all)), inverse(Real(1 / (all.bandwidth * all.bandwidth))) {}

    // rows are padded to whole vectors
    void values(int64_t unit, const Real* a, Real* h, int64_t lanes) const {
        const Bells<Real> own(tables, unit);
        const Real theta = p.line ? static_cast<const Real*>(p.line)[2 * unit] : 0, nu = p.line ? static_cast<const Real*>(p.line)[2 * unit + 1] : 0;
        for (int64_t n = 0; n < lanes; n += V) {
            const Vec<Real> at = load<Real>(a + n);
            Vec<Real> total = theta * at + nu;
            for (int64_t k = 0; k < p.count; ++k) total += own.chi[k] * own.bell(at - own.c[k]);
            store<Real>(h + n, total);
        }
    }
    void slopes(int64_t unit, const Real* a, Real* dh, int64_t lanes, Sums& all) const {
        std::vector<double>& sums = all.total;
        const Bells<Real> own(tables, unit);
        const Real theta = p.line ? static_cast<const Real*>(p.line)[2 * unit] : 0;
        for (int64_t n = 0; n < lanes; n += V) {
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
    void finish(int64_t unit, const Sums& all) const {
        const std::vector<double>& sums = all.total;
        for (int64_t k = 0; k < p.count; ++k) {
            static_cast<Real*>(p.grad_centers)[unit * p.count + k] = Real(sums[2 * k]);
            static_cast<Real*>(p.grad_coefficients)[unit * p.count + k] = Real(sums[2 * k + 1]);
        }
        for (int r = 0; r < 2 && p.grad_line; ++r) static_cast<Real*>(p.grad_line)[2 * unit + r] = Real(sums[2 * p.count + r]);
    }
};

}  // namespace REPRESENTER_ISA
}  // namespace representer
