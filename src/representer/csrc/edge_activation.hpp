// y_j = sum_i f_ij(x_i), f_ij(a) = sum_k chi_ijk g(a - c_ik), and its gradients (ops/edge_activation).
//
// The edges of an input share its centers, so one search tells where all its functions are, and each
// is a polynomial there. With the coefficients of all edges side by side, an input adds DEGREE + 1 rows
// of a table to the outputs, weighted by the powers of its distance to the lower center. Backward, its
// output gradients are added to the same rows of a table of moments; passes over the centers shift and
// sum them, as they made the table. 64 rows of the batch at a time, whose outputs stay in a first-level
// cache, are taken by interval for each input, so that rows of a table stay in registers.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "core.hpp"
#include "expansion.hpp"
#include "parallel.hpp"
#include "vec.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

template <class Real, int DEGREE> struct Edges {
    static constexpr int R = DEGREE + 1, V = Lanes<Real>::n, VECTORS = 4, NEAR = 4, LANES = VECTORS * V, TILE = 64, FEW_CENTERS = 32;
    typedef typename std::conditional<sizeof(Real) == 4, int32_t, int64_t>::type Count;
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
    struct Corner {
        int64_t input, row, center;  // the last: the first of those equal to this input
    };
    Workspace<Count> interval;                 // number of centers below (tiles, I, TILE)
    Workspace<Real> distance;                  // from the lower center (tiles, I, TILE)
    std::vector<std::vector<Corner>> corners;  // inputs on a center, of each tile by input

    explicit Edges(const RepresenterEdges& all)
        : p(all), N(all.rows), I(all.features), J(all.outputs), K(all.count), rows_of_table((K + 1) * R),
          sign(all.green == GREEN_RELU ? 0 : -1), row(K + NEAR), sorted(I * (K + NEAR), Real(INFINITY)), order(I * K), interval(tiles() * I * TILE, false), distance(tiles() * I * TILE, false), corners(tiles()) {
        const Real* centers = static_cast<const Real*>(p.centers);
        std::vector<int64_t> of_input(K);
        for (int64_t i = 0; i < I; ++i) {
            order_of(centers + i * K, of_input);
            for (int64_t k = 0; k < K; ++k) order[i * K + k] = of_input[k], sorted[i * row + k] = centers[i * K + of_input[k]];
        }
        std::vector<int32_t> cells;  // of an even grid over the centers: number of centers in earlier ones
        std::vector<Real> origin(I), scale(I);
        const int64_t C = cells_of(cells, origin, scale);
        parallel_for(tiles(), p.threads, [&](int64_t tile) {
            const int64_t rows = rows_of(tile);
            const Real* x = static_cast<const Real*>(p.input) + tile * TILE * I;
            alignas(64) Real a[TILE] = {};
            for (int64_t i = 0; i < I; ++i) {
                const Real* c = sorted.data() + i * row;
                Count* q = interval.at((tile * I + i) * TILE);
                Real* t = distance.at((tile * I + i) * TILE);
                for (int64_t n = 0; n < rows; ++n) a[n] = x[n * I + i];
                if (K <= FEW_CENTERS) compare(a, c, q, t);
                else
                    for (int64_t n = 0; n < rows; ++n) {
                        q[n] = Count(below(a[n], c, cells.data() + i * (C + 1), origin[i], scale[i], C));
                        t[n] = a[n] - c[std::max<Count>(q[n] - 1, 0)];
                    }
                if (DEGREE == 1 && sign)
                    for (int64_t n = 0; n < rows; ++n)
                        if (__builtin_expect(c[q[n]] == a[n] && q[n] < K, 0)) corners[tile].push_back({i, tile * TILE + n, q[n]});
            }
        });
    }
    int64_t tiles() const { return (N + TILE - 1) / TILE; }
    int64_t rows_of(int64_t tile) const { return std::min<int64_t>(TILE, N - tile * TILE); }

    // The same as `below` and the distance, of a tile, by comparisons with all centers.
    void compare(const Real* a, const Real* c, Count* q, Real* t) const {
        for (int64_t n = 0; n < TILE; n += V) {
            const Vec<Real> here = load<Real>(a + n);
            Int<Real> count{};
            Vec<Real> base = splat<Real>(c[0]);
            for (int64_t k = 0; k < K; ++k) {
                const Vec<Real> center = splat<Real>(c[k]);
                const Int<Real> is_below = center < here;
                count -= is_below, base = is_below ? center : base;
            }
            std::memcpy(q + n, &count, sizeof count);
            store<Real>(t + n, here - base);
        }
    }

    // Rows of a tile in the same interval, as bits.
    static REPRESENTER_INLINE uint64_t members(const Count* q, Count here) {
        uint64_t bits = 0;
#if defined(__AVX512F__)
        if constexpr (sizeof(Count) == 4)
            for (int v = 0; v < TILE / V; ++v) bits |= uint64_t(_mm512_cmpeq_epi32_mask(_mm512_loadu_si512(q + v * V), _mm512_set1_epi32(here))) << (v * V);
        else
            for (int v = 0; v < TILE / V; ++v) bits |= uint64_t(_mm512_cmpeq_epi64_mask(_mm512_loadu_si512(q + v * V), _mm512_set1_epi64(here))) << (v * V);
#elif defined(__AVX2__)
        const auto load_all = [q](int v) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + v * V)); };
        if constexpr (sizeof(Count) == 4)
            for (int v = 0; v < TILE / V; ++v) bits |= uint64_t(uint32_t(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(load_all(v), _mm256_set1_epi32(here)))))) << (v * V);
        else
            for (int v = 0; v < TILE / V; ++v) bits |= uint64_t(uint32_t(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(load_all(v), _mm256_set1_epi64x(here)))))) << (v * V);
#else
        for (int n = 0; n < TILE; ++n) bits |= uint64_t(q[n] == here) << n;
#endif
        return bits;
    }

    // Number of centers below a.
    static REPRESENTER_INLINE int64_t below(Real a, const Real* c, const int32_t* cells, Real origin, Real scale, int64_t count) {
        const int32_t* before = cells + cell(a, origin, scale, count);
        int64_t first = before[0], all = first;
        if (__builtin_expect(before[1] - first > NEAR, 0)) return std::lower_bound(c + first, c + before[1], a) - c;
        for (int k = 0; k < NEAR; ++k) all += c[first + k] < a;  // of later cells, none is
        return all;
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
        const int64_t blocks = (J + LANES - 1) / LANES, entries = rows_of_table * LANES, inputs = std::max<int64_t>(1, TABLE / entries);
        const int64_t bands = std::max<int64_t>(1, std::min<int64_t>(p.threads / std::max<int64_t>(blocks, 1), tiles()));
        parallel_for(blocks * bands, p.threads, [&](int64_t task) {
            const int64_t first = task / bands * LANES, lanes = std::min<int64_t>(LANES, J - first), band = task % bands;
            Workspace<Real> tables(inputs * entries, false), turned(K * LANES, false), outputs(TILE * LANES);
            for (int64_t start = 0; start < I; start += inputs) {
                const int64_t some = std::min(inputs, I - start);
                for (int64_t i = 0; i < some; ++i) {
                    turn(start + i, first, lanes, turned.at(0));
                    make(start + i, turned.at(0), tables.at(i * entries));
                }
                for (int64_t tile = share(tiles(), bands, band); tile < share(tiles(), bands, band + 1); ++tile) {
                    const int64_t rows = rows_of(tile);
                    Real* of = y + tile * TILE * J + first;
                    if (start)
                        for (int64_t n = 0; n < rows; ++n) std::copy_n(of + n * J, lanes, outputs.at(n * LANES));
                    else std::fill_n(outputs.at(0), rows * LANES, Real(0));
                    for (int64_t i = 0; i < some; ++i) add(tables.at(i * entries), tile, start + i, outputs.at(0));
                    for (int64_t n = 0; n < rows; ++n) std::copy_n(outputs.at(n * LANES), lanes, of + n * J);
                }
            }
        });
    }

    // Add the functions of an input to the outputs of a tile.
    __attribute__((noinline)) void add(const Real* table, int64_t tile, int64_t i, Real* outputs) const {
        const Count* q = interval.at((tile * I + i) * TILE);
        const Real* t = distance.at((tile * I + i) * TILE);
        for (uint64_t rest = ~uint64_t(0) >> (TILE - rows_of(tile)); rest;) {
            const Count here = q[__builtin_ctzll(rest)];
            Vec<Real> of[R][VECTORS];
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; ++v) of[r][v] = load<Real>(table + (here * R + r) * LANES + v * V);
            uint64_t same = members(q, here) & rest;
            for (rest ^= same; same; same &= same - 1) {
                const int n = __builtin_ctzll(same);
                Real* to = outputs + n * LANES;
                const Vec<Real> u = splat<Real>(t[n]);
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; ++v) {
                    Vec<Real> value = of[DEGREE][v];
#pragma GCC unroll 4
                    for (int r = DEGREE - 1; r >= 0; --r) value = of[r][v] + u * value;
                    store<Real>(to + v * V, load<Real>(to + v * V) + value);
                }
            }
        }
    }

    void backward() const {
        const int64_t inputs = std::max<int64_t>(1, TABLE / (2 * rows_of_table * LANES));
        const int64_t groups = (I + inputs - 1) / inputs;
        parallel_for<DYNAMIC>(groups, p.threads, [&](int64_t group) {
            const int64_t start = group * inputs, some = std::min(inputs, I - start), entries = rows_of_table * LANES;
            Workspace<Real> tables(inputs * entries, false), moments(inputs * entries, false), turned(inputs * K * LANES, false), grad(TILE * LANES);
            std::vector<double> dc(some * K);
            for (int64_t first = 0; first < J; first += LANES) {
                const int64_t lanes = std::min<int64_t>(LANES, J - first);
                for (int64_t i = 0; i < some; ++i) {
                    turn(start + i, first, lanes, turned.at(i * K * LANES));
                    make(start + i, turned.at(i * K * LANES), tables.at(i * entries));
                }
                std::fill(moments.at(0), moments.at(some * entries), Real(0));
                std::fill(grad.at(0), grad.at(TILE * LANES), Real(0));
                for (int64_t tile = 0; tile < tiles(); ++tile) {
                    const int64_t rows = rows_of(tile);
                    const Real* from = static_cast<const Real*>(p.grad) + tile * TILE * J + first;
                    for (int64_t n = 0; n < rows; ++n) std::copy_n(from + n * J, lanes, grad.at(n * LANES));
                    for (int64_t i = 0; i < some; ++i) pull(tables.at(i * entries), moments.at(i * entries), tile, start + i, grad.at(0), first > 0);
                }
                for (int64_t i = 0; i < some; ++i) finish(moments.at(i * entries), turned.at(i * K * LANES), start + i, first, lanes, dc.data() + i * K);
            }
            const auto by_input = [](const Corner& corner, int64_t i) { return corner.input < i; };
            for (const auto& all : corners)
                for (auto it = std::lower_bound(all.begin(), all.end(), start, by_input); it != all.end() && it->input < start + some; ++it)
                    corner(*it, dc.data() + (it->input - start) * K);
            Real* to = static_cast<Real*>(p.grad_centers) + start * K;
            for (int64_t k = 0; k < some * K; ++k) to[k] = Real(dc[k]);
        });
        if (!J) std::fill_n(static_cast<Real*>(p.grad_input), N * I, Real(0));
    }

    // Write, or add, the gradients of an input in the rows of a tile, and add to its moments.
    __attribute__((noinline)) void pull(const Real* table, Real* moments, int64_t tile, int64_t i, const Real* grad, bool adds) const {
        const Count* q = interval.at((tile * I + i) * TILE);
        const Real* t = distance.at((tile * I + i) * TILE);
        Real* dx = static_cast<Real*>(p.grad_input) + tile * TILE * I + i;
        for (uint64_t rest = ~uint64_t(0) >> (TILE - rows_of(tile)); rest;) {
            const Count here = q[__builtin_ctzll(rest)];
            Vec<Real> slopes[DEGREE][VECTORS], m[R][VECTORS] = {};
#pragma GCC unroll 4
            for (int r = 0; r < DEGREE; ++r)
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; ++v) slopes[r][v] = Real(r + 1) * load<Real>(table + (here * R + r + 1) * LANES + v * V);
            uint64_t same = members(q, here) & rest;
            for (rest ^= same; same; same &= same - 1) {
                const int n = __builtin_ctzll(same);
                const Real* from = grad + n * LANES;
                const Vec<Real> u = splat<Real>(t[n]);
                Vec<Real> dot{};
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; ++v) {
                    Vec<Real> power = load<Real>(from + v * V), slope = slopes[DEGREE - 1][v];
#pragma GCC unroll 4
                    for (int r = DEGREE - 2; r >= 0; --r) slope = slopes[r][v] + u * slope;
                    dot += power * slope;
#pragma GCC unroll 4
                    for (int r = 0; r < R; ++r, power *= u) m[r][v] += power;
                }
                Real& to = dx[n * I];
                const Real all = folded(dot);
                to = adds ? to + all : all;
            }
            Real* to = moments + here * R * LANES;
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; ++v, to += V) store<Real>(to, load<Real>(to) + m[r][v]);
        }
    }

    // The sum of a vector, by halves: in order, each sum would wait for the one before.
    template <class Vector> static REPRESENTER_INLINE Real folded(Vector v) {
        if constexpr (sizeof(Vector) == 2 * sizeof(Real)) return v[0] + v[1];
        else {
            typedef Real Half __attribute__((vector_size(sizeof(Vector) / 2)));
            Half halves[2];
            std::memcpy(halves, &v, sizeof v);
            return folded(halves[0] + halves[1]);
        }
    }

    // An input on a center, where |u| has the slope 0: it was taken to be below.
    __attribute__((noinline)) void corner(const Corner& at, double* dc) const {
        const Real *c = sorted.data() + at.input * row, *grad = static_cast<const Real*>(p.grad) + at.row * J;
        double all = 0;
        for (int64_t k = at.center; k < K && c[k] == c[at.center]; ++k) {
            const int64_t index = order[at.input * K + k];
            const Real* chi = static_cast<const Real*>(p.coefficients) + at.input * J * K + index;
            double pull = 0;
            for (int64_t j = 0; j < J; ++j) pull += double(grad[j]) * double(chi[j * K]);
            dc[index] -= pull, all += pull;
        }
        static_cast<Real*>(p.grad_input)[at.row * I + at.input] += Real(all);
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
                constexpr int AT_ONCE = 8;
                double slope[AT_ONCE] = {}, total = 0;
                for (int j = 0; j < LANES; ++j) sums.at(k * LANES)[j] += factor * m[DEGREE][j];
                for (int j = 0; j < LANES; j += AT_ONCE)
                    for (int l = 0; l < AT_ONCE; ++l) slope[l] += double(chi[k * LANES + j + l]) * m[DEGREE - 1][j + l];
                for (const double part : slope) total += part;
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
