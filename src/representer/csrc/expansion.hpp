// A kernel expansion as piecewise polynomials between its sorted centers.
//
// A uniform grid of cells covers the range of the centers. In a cell with one center, f is a polynomial
// about that center whose leading coefficient differs on the two sides; in a cell without a center, f is
// the polynomial of the enclosing interval. An evaluation therefore takes two table lookups; only cells
// with several centers need a binary search. The input gradient is the derivative of the polynomial.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "vec.hpp"

namespace representer {
namespace REPRESENTER_ISA {

enum Green { GREEN_ABS, GREEN_RELU, GREEN_GAUSSIAN, GREEN_CUBIC };  // in the order of functional.kernel_activation.GREENS

// Argsort the centers. NaN sorts last, which keeps the comparison a strict weak ordering.
template <class Real> __attribute__((noinline)) void order_of(const Real* c, std::vector<int64_t>& order) {
    for (size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::stable_sort(order.begin(), order.end(), [c](int64_t i, int64_t j) { return c[i] < c[j] || (c[i] == c[i] && c[j] != c[j]); });
}

// The piecewise polynomial of one feature; DEGREE is 1 for |u| and max(0, u), 3 for |u|^3.
template <class Real, int DEGREE> struct Expansion {
    static constexpr int P = DEGREE + 1, MANY = 128;
    struct Piece {
        Real base, taylor[DEGREE], last[2];  // last: leading coefficient below and above the base
    };
    int64_t count;               // K
    std::vector<Real> centers;   // sorted (K)
    std::vector<int64_t> order;  // original index of each sorted center
    std::vector<Piece> pieces;   // (2 K + 1): one about each center, then one per interval about its lower center
    std::vector<Real> touching;  // (2 K + 1): slope at the base, where g is not differentiable

    __attribute__((noinline)) void build(const Real* c, const Real* chi, int64_t k_count, int green) {
        count = k_count;
        order.resize(count);
        order_of(c, order);
        centers.resize(count);
        for (int64_t k = 0; k < count; ++k) centers[k] = c[order[k]];
        polynomials(chi, green);
        cut();
    }

    // Evaluate f at `lanes` inputs. May run in place.
    __attribute__((noinline)) void values(const Real* a, Real* f, int64_t lanes) const {
        int32_t cell[MANY];
        for (int64_t first = 0; first < lanes; first += MANY) {
            const int some = int(std::min<int64_t>(MANY, lanes - first));
            for (int n = 0; n < some; ++n) cell[n] = cell_of(a[first + n]);
            for (int n = 0; n < some; ++n) {
                const Real at = a[first + n];
                const Piece& q = pieces[piece_of(cells[cell[n]], at)];
                const Real t = at - q.base, last = q.last[t > 0], *p = q.taylor;
                f[first + n] = DEGREE == 1 ? p[0] + t * last : p[0] + t * (p[1 % DEGREE] + t * (p[2 % DEGREE] + t * last));
            }
        }
    }
    // Accumulators for the gradients of centers and coefficients.
    struct Sums {
        std::vector<Real> recent;   // moments of the output gradients about the base, per piece and side
        std::vector<double> total;  // earlier moments in double; few enough stay in `recent` to sum them in Real
        std::vector<double> on;     // per base, the sum of the gradients of inputs equal to it
        int64_t taken = 0;          // number of inputs in `recent`

        explicit Sums(int64_t centers) : recent(2 * P * (2 * centers + 1)), total(recent.size()), on(2 * centers + 1) {}
        void settle() {
            for (size_t r = 0; r < total.size(); ++r) total[r] += double(recent[r]), recent[r] = 0;
            taken = 0;
        }
        void add(Sums& other) {
            settle(), other.settle();
            for (size_t r = 0; r < total.size(); ++r) total[r] += other.total[r];
            for (size_t r = 0; r < on.size(); ++r) on[r] += other.on[r];
        }
    };
    // Replace the gradients of f by the gradients of the inputs, and accumulate `sums`.
    __attribute__((noinline)) void slopes(const Real* a, Real* grad, int64_t lanes, Sums& sums) const {
        typedef Real Moments __attribute__((vector_size(P * sizeof(Real))));
        int32_t cell[MANY];
        const Piece* const table = pieces.data();  // hoisted: the compiler must assume that the stores below alias
        const int32_t* const piece_at = cells.data();
        Real* const recent = sums.recent.data();
        for (int64_t first = 0; first < lanes; first += MANY) {
            const int some = int(std::min<int64_t>(MANY, lanes - first));
            if ((sums.taken += some) > 4096) sums.settle(), sums.taken = some;
            for (int n = 0; n < some; ++n) cell[n] = cell_of(a[first + n]);
            for (int n = 0; n < some; ++n) {
                const Real at = a[first + n], w = grad[first + n];
                const int64_t place = piece_of(piece_at[cell[n]], at);
                const Piece& q = table[place];
                const Real t = at - q.base, last = q.last[t > 0], *p = q.taylor;
                Real slope = DEGREE == 1 ? last : p[1 % DEGREE] + t * (2 * p[2 % DEGREE] + t * 3 * last), power = w;
                Moments own, total;
                for (int r = 0; r < P; ++r, power *= t) own[r] = power;
                Real* side = recent + (2 * place + (t > 0)) * P;
                std::memcpy(&total, side, sizeof total);
                total += own;
                std::memcpy(side, &total, sizeof total);
                if (DEGREE == 1 && __builtin_expect(t == 0, 0)) slope = touching[place], sums.on[place] += double(w);
                grad[first + n] = w * slope;
            }
        }
    }
    // Return the moments of each interval about its lower center, (K + 1, P).
    __attribute__((noinline)) std::vector<double> moments(const Sums& sums) const {
        std::vector<double> all((count + 1) * P, 0.0);
        const auto add = [&all](int64_t interval, const double* m) {
            for (int r = 0; r < P; ++r) all[interval * P + r] += m[r];
        };
        for (int64_t k = 0; k < count; ++k) {
            double below[P];
            for (int r = 0; r < P; ++r) below[r] = sums.total[2 * k * P + r];
            if (k) lower<DEGREE>(below, double(centers[k]) - double(centers[k - 1]));
            add(k, below), add(k + 1, &sums.total[(2 * k + 1) * P]);
        }
        for (int64_t j = 0; j <= count; ++j)
            for (int side = 0; side < 2; ++side) add(j, &sums.total[(2 * (count + j) + side) * P]);
        return all;
    }

    // Add slope * a + value to f.
    void add(Real slope, Real value) {
        for (int64_t j = 0; j <= 2 * count; ++j) {
            Piece& q = pieces[j];
            q.taylor[0] += slope * q.base + value, touching[j] += slope;
            if (DEGREE == 1) q.last[0] += slope, q.last[1] += slope;
            else q.taylor[1 % DEGREE] += slope;
        }
    }

  private:
    std::vector<int32_t> cells;  // piece of each cell; with several centers, -1 minus the number of centers before it
    Real origin, scale, last_cell;

    // Centers and inputs are rounded alike, so a center in an earlier cell is below the input.
    REPRESENTER_INLINE int32_t cell_of(Real a) const {
        Real t = (a - origin) * scale;
        t = t > 0 ? t : 0;  // also maps NaN to 0
        return int32_t(t < last_cell ? t : last_cell);
    }
    REPRESENTER_INLINE int64_t piece_of(int32_t piece, Real a) const {
        return __builtin_expect(piece >= 0, 1) ? piece : searched(a, -1 - piece);
    }
    __attribute__((noinline)) int64_t searched(Real a, int64_t first) const {
        const int64_t j = std::lower_bound(centers.begin() + first, centers.end(), a) - centers.begin();
        return j < count && centers[j] == a ? j : count + j;
    }
    void cut() {
        int64_t wanted = 16;
        while (wanted < 8 * count && wanted < 4096) wanted *= 2;
        last_cell = Real(wanted - 1);
        origin = centers[0];
        const Real wide = centers[count - 1] - origin;
        scale = wide > 0 && wide < INFINITY ? Real(wanted) / wide : Real(0);
        if (!(scale < INFINITY)) scale = 0;
        cells.assign(wanted, 0);
        for (int64_t k = 0; k < count; ++k) cells[cell_of(centers[k])] += 1;
        int64_t before = 0;
        for (int32_t& cell : cells) {
            const int64_t own = cell;
            cell = int32_t(own == 0 ? count + before : own == 1 ? before : -1 - before);
            before += own;
        }
    }
    void polynomials(const Real* chi, int green) {
        const double below_sign = green == GREEN_RELU ? 0 : -1;  // g(u) = below_sign * u^DEGREE for u < 0
        double p[4] = {0, 0, 0, 0};                            // left of all centers, about the first one
        for (int64_t k = 0; k < count; ++k) {
            const double x = chi[order[k]], u = double(centers[0]) - double(centers[k]);
            if (DEGREE == 1) {
                p[0] += below_sign * x * u, p[1] += below_sign * x;
            } else {
                p[0] += below_sign * x * u * u * u, p[1] += below_sign * x * 3 * u * u;
                p[2] += below_sign * x * 3 * u, p[3] += below_sign * x;
            }
        }
        pieces.resize(2 * count + 1), touching.assign(2 * count + 1, Real(0));
        put(count, p, p[DEGREE], centers[0]);
        for (int64_t k = 0; k < count; ++k) {
            if (k) shift<DEGREE>(p, double(centers[k]) - double(centers[k - 1]));
            const double below = p[DEGREE];
            p[DEGREE] += (1 - below_sign) * double(chi[order[k]]);  // g changes from s u^m to u^m
            put(k, p, below, centers[k]), put(count + k + 1, p, p[DEGREE], centers[k]);
        }
        for (int64_t k = 0; k < count;) {  // coinciding centers contribute no slope at their position
            int64_t end = k;
            double own = 0;
            while (end < count && centers[end] == centers[k]) own += chi[order[end++]];
            if (end == k) end = k + 1;  // NaN
            touching[k] = Real(double(pieces[k].last[0]) - below_sign * own);
            k = end;
        }
    }
    void put(int64_t j, const double* p, double below, Real base) {
        Piece& q = pieces[j];
        q.base = base, q.last[0] = Real(below), q.last[1] = Real(p[DEGREE]);
        for (int r = 0; r < DEGREE; ++r) q.taylor[r] = Real(p[r]);
    }

  public:
    // Taylor shift: the coefficients of p(t) become those of p(t + h).
    template <int D> static void shift(double* p, double h) {
        if (D == 1) {
            p[0] += h * p[1];
        } else {
            p[0] += h * (p[1] + h * (p[2] + h * p[3]));
            p[1] += h * (2 * p[2] + h * 3 * p[3]);
            p[2] += h * 3 * p[3];
        }
    }
    // Shift the moments sum g t^r to a base that is lower by h.
    template <int D> static void lower(double* m, double h) {
        if (D == 3) m[3] += h * (3 * m[2] + h * (3 * m[1] + h * m[0]));
        if (D == 3) m[2] += h * (2 * m[1] + h * m[0]);
        m[1] += h * m[0];
    }
};

}  // namespace REPRESENTER_ISA
}  // namespace representer
