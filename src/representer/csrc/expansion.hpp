// One kernel expansion as polynomials between its sorted centres, and how moments are shifted.
//
// Between two of the sorted centres f is a polynomial, kept as its Taylor coefficients at the centre
// below (at the first one for what lies below all): a search finds the interval, a few products the
// value. The gradient with respect to the input is that polynomial's slope.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "vec.hpp"

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

}  // namespace REPRESENTER_ISA
}  // namespace representer
