// y_j = sum_i f_ij(x_i), f_ij(a) = sum_k chi_ijk g(a - c_ik), and its gradients (ops/edge_activation).
//
// The edges of an input share its centers, so one search tells where all its functions are, and each
// is a polynomial there. With the coefficients of all edges side by side, an input adds DEGREE + 1 rows
// of a table to the outputs, weighted by the powers of its distance to the lower center. Backward, its
// output gradients are added to the same rows of a table of moments; passes over the centers shift and
// sum them, as they made the table.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core.hpp"
#include "expansion.hpp"
#include "parallel.hpp"
#include "vec.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

template <class Real, int DEGREE> struct Edges {
    static constexpr int R = DEGREE + 1, V = Lanes<Real>::n, VECTORS = 4, NEAR = 4, LANES = VECTORS * V;
    // Entries of the tables of some inputs, which stay in a second-level cache. Measured: with a first-level cache's
    // size, the outputs are loaded and stored so often that it takes 1.3 times as long.
    static constexpr int64_t TABLE = (int64_t(128) << 10) / sizeof(Real);
    static constexpr int64_t BINOMIAL[4][4] = {{1, 0, 0, 0}, {1, 1, 0, 0}, {1, 2, 1, 0}, {1, 3, 3, 1}};

    const RepresenterEdges& p;
    const int64_t N, I, J, K, rows_of_table;  // the last: of one input
    const double sign;                        // g(u) = sign * u^DEGREE for u < 0
    const int64_t row;                        // entries of a row of the next: K, and some infinities
    std::vector<Real> sorted;                 // centers (I, row)
    std::vector<int64_t> order;               // the original indices (I, K)
    Workspace<int32_t> interval;              // number of centers below each input (N, I)
    Workspace<Real> distance;                 // of each input from the lower center (N, I)

    explicit Edges(const RepresenterEdges& all)
        : p(all), N(all.rows), I(all.features), J(all.outputs), K(all.count), rows_of_table((K + 1) * R),
          sign(all.green == GREEN_RELU ? 0 : -1), row(K + NEAR), sorted(I * (K + NEAR), Real(INFINITY)), order(I * K), interval(N * I, false), distance(N * I, false) {
        const Real* centers = static_cast<const Real*>(p.centers);
        std::vector<int64_t> of_input(K);
        for (int64_t i = 0; i < I; ++i) {
            order_of(centers + i * K, of_input);
            for (int64_t k = 0; k < K; ++k) order[i * K + k] = of_input[k], sorted[i * row + k] = centers[i * K + of_input[k]];
        }
        const int64_t bands = std::max<int64_t>(1, std::min<int64_t>(p.threads, N / 16));
        std::vector<int32_t> cells;  // of an even grid over the centers: number of centers in earlier ones
        std::vector<Real> origin(I), scale(I);
        const int64_t C = cells_of(cells, origin, scale);
        const Real* x = static_cast<const Real*>(p.input);
        parallel_for(bands, p.threads, [&](int64_t band) {
            for (int64_t n = share(N, bands, band); n < share(N, bands, band + 1); ++n)
                for (int64_t i = 0; i < I; ++i) {
                    const Real a = x[n * I + i], *c = sorted.data() + i * row;
                    const int32_t* before = cells.data() + i * (C + 1) + cell(a, origin[i], scale[i], C);
                    const int64_t first = before[0];
                    int64_t below = first;
                    if (__builtin_expect(before[1] - first > NEAR, 0)) below = std::lower_bound(c + first, c + before[1], a) - c;
                    else
                        for (int k = 0; k < NEAR; ++k) below += c[first + k] < a;  // of later cells, none is
                    interval.at(n * I + i)[0] = int32_t(below);
                    distance.at(n * I + i)[0] = a - c[std::max<int64_t>(below - 1, 0)];
                }
        });
    }

    // Centers and inputs are rounded alike, so a center in an earlier cell is below an input.
    static REPRESENTER_INLINE int64_t cell(Real a, Real origin, Real scale, int64_t count) {
        Real t = (a - origin) * scale;
        t = t > 0 ? t : 0;  // also maps NaN to 0
        return int64_t(t < Real(count - 1) ? t : Real(count - 1));
    }
    int64_t cells_of(std::vector<int32_t>& cells, std::vector<Real>& origin, std::vector<Real>& scale) const {
        const int64_t C = 2 * K;
        cells.assign(I * (C + 1), 0);
        for (int64_t i = 0; i < I; ++i) {
            const Real *c = sorted.data() + i * row, width = c[K - 1] - c[0];
            origin[i] = c[0], scale[i] = width > 0 && width < INFINITY ? Real(C) / width : 0;
            int32_t* of = cells.data() + i * (C + 1);
            for (int64_t k = 0; k < K; ++k) ++of[1 + cell(c[k], origin[i], scale[i], C)];
            for (int64_t j = 0; j < C; ++j) of[j + 1] += of[j];
        }
        return C;
    }

    // Replace moments sum w (a - q)^r about the base a by those about a + d.
    static void shift(double (*m)[LANES], double d) {
        for (int r = DEGREE; r > 0; --r) {
            double power = d;
            for (int s = r - 1; s >= 0; --s, power *= d) {
                const double factor = power * double(BINOMIAL[r][s]);
                for (int j = 0; j < LANES; ++j) m[r][j] += factor * m[s][j];
            }
        }
    }

    // Copy the coefficients of outputs j ... j + lanes - 1 of input i as rows (K, LANES), by ascending centers.
    void turn(int64_t i, int64_t first, int64_t lanes, Real* rows) const {
        const Real* chi = static_cast<const Real*>(p.coefficients) + (i * J + first) * K;
        for (int64_t k = 0; k < K; ++k) {
            const Real* from = chi + order[i * K + k];
            for (int64_t j = 0; j < lanes; ++j) rows[k * LANES + j] = from[j * K];
            std::fill(rows + k * LANES + lanes, rows + (k + 1) * LANES, Real(0));
        }
    }

    // Make the table of LANES outputs of input i, whose coefficients are `chi`: row (interval, power).
    __attribute__((noinline)) void make(int64_t i, const Real* chi, Real* table) const {
        const Real* c = sorted.data() + i * row;
        double m[R][LANES];
        for (int side = 0; side < 2; ++side) {  // of the centers below, and of those above
            for (auto& row : m) std::fill(row, row + LANES, 0.0);
            for (int64_t step = 0; step <= K; ++step) {
                const int64_t q = side ? K - step : step, base = std::max<int64_t>(q - 1, 0);
                if (step) {  // a center joins, which was or becomes the base
                    const int64_t joins = side ? q : base;
                    if (!side) shift(m, double(c[base]) - double(c[std::max<int64_t>(q - 2, 0)]));
                    for (int j = 0; j < LANES; ++j) m[0][j] += double(chi[joins * LANES + j]);
                    if (side) shift(m, double(c[base]) - double(c[joins]));
                }
                for (int r = 0; r < R; ++r) {
                    Real* to = table + (q * R + r) * LANES;
                    const double factor = double(BINOMIAL[DEGREE][r]) * (side ? sign : 1);
                    if (side)
                        for (int j = 0; j < LANES; ++j) to[j] += Real(factor * m[DEGREE - r][j]);
                    else
                        for (int j = 0; j < LANES; ++j) to[j] = Real(factor * m[DEGREE - r][j]);
                }
            }
        }
    }

    void forward() const {
        Real* y = static_cast<Real*>(p.output);
        const int64_t blocks = (J + LANES - 1) / LANES, inputs = std::max<int64_t>(1, TABLE / (rows_of_table * LANES));
        const int64_t bands = std::max<int64_t>(1, std::min<int64_t>(p.threads / std::max<int64_t>(blocks, 1), N / 64));
        parallel_for(blocks * bands, p.threads, [&](int64_t task) {
            const int64_t first = task / bands * LANES, lanes = std::min<int64_t>(LANES, J - first), band = task % bands;
            Workspace<Real> tables(inputs * rows_of_table * LANES, false), turned(K * LANES, false);
            for (int64_t start = 0; start < I; start += inputs) {
                const int64_t some = std::min(inputs, I - start);
                for (int64_t i = 0; i < some; ++i) {
                    turn(start + i, first, lanes, turned.at(0));
                    make(start + i, turned.at(0), tables.at(i * rows_of_table * LANES));
                }
                for (int64_t n = share(N, bands, band); n < share(N, bands, band + 1); ++n)
                    add_row(tables.at(0), n, start, some, lanes, y + n * J + first);
            }
        });
    }

    // y = sum_i table rows, or y += for later blocks of inputs.
    REPRESENTER_INLINE void add_row(const Real* tables, int64_t n, int64_t start, int64_t some, int64_t lanes, Real* y) const {
        Vec<Real> total[VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; ++v) total[v] = start ? partial(y, v, lanes) : Vec<Real>{};
        const int32_t* q = interval.at(n * I + start);
        const Real* t = distance.at(n * I + start);
        for (int64_t i = 0; i < some; ++i) {
            const Real* row = tables + (i * rows_of_table + q[i] * R) * LANES;
            const Vec<Real> u = splat<Real>(t[i]);
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; ++v) {
                const Real* of = row + v * V;
                if constexpr (DEGREE == 1) total[v] += load<Real>(of) + u * load<Real>(of + LANES);
                else
                    total[v] += load<Real>(of) + u * (load<Real>(of + LANES) + u * (load<Real>(of + 2 * LANES) + u * load<Real>(of + 3 * LANES)));
            }
        }
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; ++v) {
            const int here = int(std::min<int64_t>(V, lanes - v * V));
            if (here > 0) store(y + v * V, total[v], here);
        }
    }
    static REPRESENTER_INLINE Vec<Real> partial(const Real* from, int v, int64_t lanes) {
        const int here = int(std::min<int64_t>(V, lanes - v * V));
        return here > 0 ? load(from + v * V, here) : Vec<Real>{};
    }

    void backward() const {
        const int64_t inputs = std::max<int64_t>(1, TABLE / (2 * rows_of_table * LANES));
        const int64_t groups = (I + inputs - 1) / inputs;
        parallel_for<DYNAMIC>(groups, p.threads, [&](int64_t group) {
            const int64_t start = group * inputs, some = std::min(inputs, I - start), entries = rows_of_table * LANES;
            Workspace<Real> tables(inputs * entries, false), moments(inputs * entries, false), turned(inputs * K * LANES, false);
            std::vector<double> dc(some * K);
            for (int64_t first = 0; first < J; first += LANES) {
                const int64_t lanes = std::min<int64_t>(LANES, J - first);
                for (int64_t i = 0; i < some; ++i) {
                    turn(start + i, first, lanes, turned.at(i * K * LANES));
                    make(start + i, turned.at(i * K * LANES), tables.at(i * entries));
                }
                std::fill(moments.at(0), moments.at(some * entries), Real(0));
                for (int64_t n = 0; n < N; ++n) pull(tables.at(0), moments.at(0), n, start, some, first, lanes, dc.data());
                for (int64_t i = 0; i < some; ++i) finish(moments.at(i * entries), turned.at(i * K * LANES), start + i, first, lanes, dc.data() + i * K);
            }
            Real* to = static_cast<Real*>(p.grad_centers) + start * K;
            for (int64_t k = 0; k < some * K; ++k) to[k] = Real(dc[k]);
        });
        if (!J) std::fill_n(static_cast<Real*>(p.grad_input), N * I, Real(0));
    }

    // Gradients of one row of inputs, and the moments of its output gradients.
    __attribute__((noinline)) void pull(
        const Real* tables, Real* moments, int64_t n, int64_t start, int64_t some, int64_t first, int64_t lanes, double* dc) const {
        Vec<Real> g[VECTORS];
        const Real* grad = static_cast<const Real*>(p.grad) + n * J + first;
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; ++v) g[v] = partial(grad, v, lanes);
        const int32_t* q = interval.at(n * I + start);
        const Real *t = distance.at(n * I + start), *x = static_cast<const Real*>(p.input) + n * I + start;
        Real* dx = static_cast<Real*>(p.grad_input) + n * I + start;
        for (int64_t i = 0; i < some; ++i) {
            const int64_t place = (i * rows_of_table + q[i] * R) * LANES;
            const Vec<Real> u = splat<Real>(t[i]);
            Vec<Real> dot{};
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; ++v) {
                const Real* of = tables + place + v * V;
                Real* to = moments + place + v * V;
                if constexpr (DEGREE == 1) dot += g[v] * load<Real>(of + LANES);
                else
                    dot += g[v] * (load<Real>(of + LANES) + u * (2 * load<Real>(of + 2 * LANES) + u * (3 * load<Real>(of + 3 * LANES))));
                Vec<Real> power = g[v];
#pragma GCC unroll 4
                for (int r = 0; r < R; ++r, power *= u) store<Real>(to + r * LANES, load<Real>(to + r * LANES) + power);
            }
            Real slope = sum<Real>(dot);
            const int64_t at_least = int64_t(q[i]);
            const Real* c = sorted.data() + (start + i) * row;
            if (DEGREE == 1 && sign && at_least < K && __builtin_expect(c[at_least] == x[i], 0))
                slope += corner(start + i, at_least, grad, first, lanes, dc + i * K);
            dx[i] = first ? dx[i] + slope : slope;
        }
    }

    // An input on a center, where |u| has the slope 0: it was taken to be below.
    __attribute__((noinline)) Real corner(int64_t i, int64_t k, const Real* grad, int64_t first, int64_t lanes, double* dc) const {
        const Real* c = sorted.data() + i * row;
        double all = 0;
        for (const Real x = c[k]; k < K && c[k] == x; ++k) {
            const int64_t place = order[i * K + k];
            const Real* chi = static_cast<const Real*>(p.coefficients) + (i * J + first) * K + place;
            double own = 0;
            for (int64_t j = 0; j < lanes; ++j) own += double(grad[j]) * double(chi[j * K]);
            dc[place] -= own, all += own;
        }
        return Real(all);
    }

    // Gradients of the coefficients and centers of input i, from the moments of each interval about its base.
    __attribute__((noinline)) void finish(const Real* moments, const Real* chi, int64_t i, int64_t first, int64_t lanes, double* dc) const {
        const Real* c = sorted.data() + i * row;
        Workspace<double> sums(K * LANES);  // gradients of the coefficients
        double m[R][LANES], fresh[R][LANES];
        for (int side = 0; side < 2; ++side) {  // of the inputs below each center, and of those above
            for (auto& row : m) std::fill(row, row + LANES, 0.0);
            for (int64_t step = 0; step < K; ++step) {
                const int64_t k = side ? K - 1 - step : step, q = side ? k + 1 : k, base = std::max<int64_t>(q - 1, 0);
                if (step) shift(m, double(side ? c[k + 1] : c[k - 1]) - double(c[k]));
                for (int r = 0; r < R; ++r)
                    for (int j = 0; j < LANES; ++j) fresh[r][j] = double(moments[(q * R + r) * LANES + j]);
                if (base != k) shift(fresh, double(c[base]) - double(c[k]));
                for (int r = 0; r < R; ++r)
                    for (int j = 0; j < LANES; ++j) m[r][j] += fresh[r][j];
                const double factor = side ? 1 : sign;
                double slope[LANES];
                for (int j = 0; j < LANES; ++j) {
                    sums.at(k * LANES)[j] += factor * m[DEGREE][j];
                    slope[j] = double(chi[k * LANES + j]) * m[DEGREE - 1][j];
                }
                double total = 0;
                for (int j = 0; j < LANES; ++j) total += slope[j];
                dc[order[i * K + k]] -= DEGREE * factor * total;
            }
        }
        Real* to = static_cast<Real*>(p.grad_coefficients) + (i * J + first) * K;
        for (int64_t k = 0; k < K; ++k)
            for (int64_t j = 0; j < lanes; ++j) to[j * K + order[i * K + k]] = Real(sums.at(k * LANES)[j]);
    }
};

template <class Real> int edges_forward(const RepresenterEdges& p) {
    if (p.green == GREEN_CUBIC) Edges<Real, 3>(p).forward();
    else Edges<Real, 1>(p).forward();
    return 0;
}

template <class Real> int edges_backward(const RepresenterEdges& p) {
    if (p.green == GREEN_CUBIC) Edges<Real, 3>(p).backward();
    else Edges<Real, 1>(p).backward();
    return 0;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
