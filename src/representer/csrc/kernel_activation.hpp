// f_i(a) = sum_k chi_ik g(a - c_ik) and its gradients (ops/kernel_activation).
//
// Between two of the sorted centres f is a polynomial, kept as its Taylor coefficients at the centre
// below (at the first one for what lies below all): a search finds the interval, a few products the
// value. The gradient with respect to the input is that polynomial's slope. For the others the
// inputs of each interval leave their moments about its centre, and two passes over the centres,
// one up and one down, shift and add them.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core.hpp"
#include "vec.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

enum Green { GREEN_ABS, GREEN_RELU, GREEN_GAUSSIAN, GREEN_CUBIC };  // the order of functional.kernel_activation.GREENS

// The polynomials of one feature, DEGREE 1 for |u| and max(0, u), 3 for |u|^3.
template <class Real, int DEGREE> struct Expansion {
    static constexpr int P = DEGREE + 1;
    struct Piece {
        Real base, taylor[P];
        Real touching;  // the slope at the next centre, where g has none
    };
    int64_t count;               // K
    std::vector<Real> centers;   // sorted (K), and two that lie above all
    std::vector<int64_t> order;  // where each stood
    std::vector<Piece> pieces;   // (K + 1)

    void build(const Real* c, const Real* chi, int64_t k_count, int green) {
        count = k_count;
        order.resize(count);
        for (int64_t k = 0; k < count; ++k) order[k] = k;
        // NaN goes last, so that the order is one; every value is then NaN anyway
        std::stable_sort(order.begin(), order.end(), [c](int64_t i, int64_t j) { return c[i] < c[j] || (c[i] == c[i] && c[j] != c[j]); });
        centers.resize(count + 2);
        for (int64_t k = 0; k < count; ++k) centers[k] = c[order[k]];
        centers[count] = centers[count + 1] = INFINITY;
        polynomials(chi, green);
        cells();
    }

    // How many centres lie strictly below a. Without branches where a cell has at most two centres.
    REPRESENTER_INLINE int64_t below(Real a) const {
        const uint32_t start = starts[cell_of(a)];
        int64_t at = start >> 1;
        at += centers[at] < a;
        at += centers[at] < a;
        if (__builtin_expect(start & 1, 0)) at = std::lower_bound(centers.begin() + at, centers.begin() + count, a) - centers.begin();
        return at;
    }
    REPRESENTER_INLINE Real value(Real a, int64_t j) const {
        const Piece& q = pieces[j];
        const Real t = a - q.base, *p = q.taylor;
        if (DEGREE == 1) return p[0] + p[1] * t;
        return p[0] + t * (p[1] + t * (p[2 % P] + t * p[3 % P]));
    }
    REPRESENTER_INLINE Real slope(Real a, int64_t j) const {
        const Piece& q = pieces[j];
        const Real t = a - q.base, *p = q.taylor;
        if (DEGREE == 1) return centers[j] == a ? q.touching : p[1];
        return p[1] + t * (2 * p[2 % P] + t * 3 * p[3 % P]);
    }

  private:
    std::vector<uint32_t> starts;  // of each cell: twice the centres in those before, 1 more if it has many
    Real origin, scale, last_cell;

    // The same rounding for centres and inputs, so that a centre in an earlier cell is below.
    REPRESENTER_INLINE int cell_of(Real a) const {
        Real t = (a - origin) * scale;
        t = t > 0 ? t : 0;  // NaN too
        return int(t < last_cell ? t : last_cell);
    }
    void cells() {
        int wanted = 16;
        while (wanted < 4 * count && wanted < 4096) wanted *= 2;
        last_cell = Real(wanted - 1);
        origin = centers[0];
        const Real wide = centers[count - 1] - origin;
        scale = wide > 0 && wide < INFINITY ? Real(wanted) / wide : Real(0);
        if (!(scale < INFINITY)) scale = 0;
        starts.assign(wanted + 1, 0);
        for (int64_t k = 0; k < count; ++k) starts[cell_of(centers[k]) + 1] += 1;
        uint32_t before = 0;
        for (int i = 0; i < wanted; ++i) {
            const uint32_t own = starts[i + 1];
            starts[i] = before * 2 + (own > 2);
            before += own;
        }
    }
    void polynomials(const Real* chi, int green) {
        const double below_sign = green == GREEN_RELU ? 0 : -1;  // g is this times u^DEGREE below 0
        double p[4] = {0, 0, 0, 0};                            // about the first centre, below it
        for (int64_t k = 0; k < count; ++k) {
            const double x = chi[order[k]], u = double(centers[0]) - double(centers[k]);
            if (DEGREE == 1) {
                p[0] += below_sign * x * u, p[1] += below_sign * x;
            } else {
                p[0] += below_sign * x * u * u * u, p[1] += below_sign * x * 3 * u * u;
                p[2] += below_sign * x * 3 * u, p[3] += below_sign * x;
            }
        }
        pieces.resize(count + 1);
        put(0, p, centers[0]);
        for (int64_t k = 0; k < count; ++k) {
            if (k) {
                const double h = double(centers[k]) - double(centers[k - 1]);
                shift<DEGREE>(p, h);
            }
            p[DEGREE] += (1 - below_sign) * double(chi[order[k]]);  // g turns from s u^m to u^m
            put(k + 1, p, centers[k]);
        }
        if (DEGREE != 1) return;
        for (int64_t k = 0; k < count;) {  // the centres at one place have no slope there
            int64_t end = k;
            double own = 0;
            while (end < count && centers[end] == centers[k]) own += chi[order[end++]];
            if (end == k) end = k + 1;  // NaN
            for (int64_t i = k; i < end; ++i) pieces[i].touching = Real(double(pieces[k].taylor[1]) - below_sign * own);
            k = end;
        }
    }
    void put(int64_t j, const double* p, Real base) {
        pieces[j].base = base, pieces[j].touching = 0;
        for (int r = 0; r < P; ++r) pieces[j].taylor[r] = Real(p[r]);
    }

  public:
    // From powers of u to powers of u + h, or of a polynomial in t to one in t - h.
    template <int D> static void shift(double* p, double h) {
        if (D == 1) {
            p[0] += h * p[1];
        } else {
            p[0] += h * (p[1] + h * (p[2] + h * p[3]));
            p[1] += h * (2 * p[2] + h * 3 * p[3]);
            p[2] += h * 3 * p[3];
        }
    }
    // Moments sum g t^r about one point become those about a point that is h lower.
    template <int D> static void lower(double* m, double h) {
        if (D == 3) m[3] += h * (3 * m[2] + h * (3 * m[1] + h * m[0]));
        if (D == 3) m[2] += h * (2 * m[1] + h * m[0]);
        m[1] += h * m[0];
    }
};

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
