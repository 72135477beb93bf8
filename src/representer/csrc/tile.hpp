// Register-blocked products of a few rows with packed weights.
//
//   acc[r][j] += sum_k a[r][k] * panel[k][j]        r < M rows, j < N vectors
//
// For every k, a panel stores the N vectors of one group of outputs contiguously, zero-padded.
// The number of rows is chosen such that the accumulators, one broadcast and the vectors of
// the panel fit into the registers of the instruction set.
#pragma once

#include "parallel.hpp"
#include "vec.hpp"

namespace representer {
namespace REPRESENTER_ISA {

// Doubles use half of the 32 AVX-512 registers, to limit compile time: every number of rows is instantiated.
template <class Real> constexpr int ACCUMULATORS = REPRESENTER_BYTES == 64 && sizeof(Real) == 4 ? 24 : 12;

template <class Real, int N> constexpr int rows_of() { return ACCUMULATORS<Real> / (N < 3 ? 3 : N); }

template <class Real, int M, int N, int SKIP = 0>
REPRESENTER_INLINE void multiply(
    Vec<Real> (&acc)[M][N], const Real* const (&a)[M], int64_t K, const Real* panel) {
    constexpr int V = Lanes<Real>::n, W = N - SKIP;
    for (int64_t k = 0; k < K; ++k) {
        Vec<Real> b[W];
#pragma GCC unroll 8
        for (int j = 0; j < W; ++j) b[j] = load<Real>(panel + (k * W + j) * V);
#pragma GCC unroll 16
        for (int r = 0; r < M; ++r) {
            const Vec<Real> a_rk = splat<Real>(a[r][k]);
#pragma GCC unroll 8
            for (int j = 0; j < W; ++j) acc[r][SKIP + j] += a_rk * b[j];
        }
    }
}

// Transpose V vectors of V lanes in place, exchanging entries at distance S. S is a template parameter:
// shuffles with run-time indices are three times slower.
template <class Real, int S = 1> REPRESENTER_INLINE void transpose(Vec<Real>* to) {
    constexpr int V = Lanes<Real>::n;
    if constexpr (S < V) {
        Int<Real> low, high;
#pragma GCC unroll 16
        for (int lane = 0; lane < V; ++lane) {
            low[lane] = (lane & S) ? V + lane - S : lane;
            high[lane] = (lane & S) ? V + lane : lane + S;
        }
#pragma GCC unroll 16
        for (int i = 0; i < V; ++i) {
            if (i & S) continue;
            const Vec<Real> a = to[i], b = to[i + S];
#if defined(__clang__)
            for (int lane = 0; lane < V; ++lane) {
                to[i][lane] = low[lane] < V ? a[low[lane]] : b[low[lane] - V];
                to[i + S][lane] = high[lane] < V ? a[high[lane]] : b[high[lane] - V];
            }
#else
            to[i] = __builtin_shuffle(a, b, low);
            to[i + S] = __builtin_shuffle(a, b, high);
#endif
        }
        transpose<Real, 2 * S>(to);
    }
}

// Load up to V rows of up to V entries with row stride `stride`, and transpose them.
template <class Real> inline void transpose(const Real* from, int64_t stride, int rows, int columns, Vec<Real>* to) {
    for (int i = 0; i < Lanes<Real>::n; ++i) to[i] = i < rows ? load(from + i * stride, columns) : Vec<Real>{};
    transpose<Real>(to);
}

// Horizontal sums of V vectors, one per lane of the result.
template <class Real> __attribute__((noinline)) Vec<Real> sums(Vec<Real>* partial) {
    transpose<Real>(partial);
    Vec<Real> total = partial[0];
    for (int i = 1; i < Lanes<Real>::n; ++i) total += partial[i];
    return total;
}

constexpr int64_t FEW = 32;  // up to this many rows, packing the weights does not pay off

// partial[r * stride] = lane-wise partial sums of the dot product of a row of weights with row r of x.
template <class Real, int M>
REPRESENTER_INLINE void dots(const Real* weights, const Real* x, int64_t x_row, int64_t K, Vec<Real>* partial, int stride) {
    constexpr int V = Lanes<Real>::n, CHAINS = M == 1 ? 4 : M == 2 ? 2 : 1;  // enough to hide the latency
    Vec<Real> acc[M][CHAINS] = {};
    int64_t k = 0;
    for (; k + CHAINS * V <= K; k += CHAINS * V)
        for (int i = 0; i < CHAINS; ++i) {
            const Vec<Real> w = load<Real>(weights + k + i * V);
            for (int r = 0; r < M; ++r) acc[r][i] += w * load<Real>(x + r * x_row + k + i * V);
        }
    for (; k < K; k += V) {
        const int count = K - k < V ? int(K - k) : V;
        const Vec<Real> w = load(weights + k, count);
        for (int r = 0; r < M; ++r) acc[r][0] += w * load(x + r * x_row + k, count);
    }
    for (int r = 0; r < M; ++r) {
        for (int i = 1; i < CHAINS; ++i) acc[r][0] += acc[r][i];
        partial[r * stride] = acc[r][0];
    }
}

template <class Real, bool ADD, int M>
__attribute__((noinline)) void rows_by_dots(
    const Real* weights, int count, const Real* x, int64_t x_row, int64_t K, Real* to, int64_t to_row) {
    constexpr int V = Lanes<Real>::n;
    Vec<Real> partial[M][V] = {};
    for (int i = 0; i < count; ++i) dots<Real, M>(weights + i * K, x, x_row, K, &partial[0][i], V);
    for (int r = 0; r < M; ++r, to += to_row) {
        const Vec<Real> z = sums<Real>(partial[r]);
        store(to, ADD ? load(to, count) + z : z, count);
    }
}

// to[r][o] = sum_k weights[o][k] x[r][k], or += if ADD, for so few rows that packing the weights does not pay off:
// they are read in order, once for every four rows.
template <class Real, bool ADD>
void product_of_few(
    const Real* weights, int64_t outputs, int64_t K, const Real* x, int64_t x_row, int64_t rows, Real* to, int64_t to_row) {
    constexpr int V = Lanes<Real>::n;
    for (int64_t o = 0; o < outputs; o += V) {
        const int count = outputs - o < V ? int(outputs - o) : V;
        const Real* block = weights + o * K;
        int64_t r = 0;
        for (; r + 4 <= rows; r += 4) rows_by_dots<Real, ADD, 4>(block, count, x + r * x_row, x_row, K, to + r * to_row + o, to_row);
        for (; r + 2 <= rows; r += 2) rows_by_dots<Real, ADD, 2>(block, count, x + r * x_row, x_row, K, to + r * to_row + o, to_row);
        if (r < rows) rows_by_dots<Real, ADD, 1>(block, count, x + r * x_row, x_row, K, to + r * to_row + o, to_row);
    }
}

// Return the number of threads for moving entries once: fewer are moved before a second thread has started.
inline int64_t movers(int64_t entries, int64_t threads) { return entries < 65536 ? 1 : threads; }

// Blocked transpose: to (columns, rows) = from (rows, columns)'.
template <class Real>
__attribute__((noinline)) void transpose_matrix(const Real* from, int64_t rows, int64_t columns, Real* to, int64_t threads = 1) {
    constexpr int V = Lanes<Real>::n;
    parallel_for((rows + V - 1) / V, movers(rows * columns, threads), [&](int64_t block) {
        const int64_t i = block * V;
        for (int64_t j = 0; j < columns; j += V) {
            const int tall = rows - i < V ? int(rows - i) : V, wide = columns - j < V ? int(columns - j) : V;
            Vec<Real> square[V];
            transpose<Real>(from + i * columns + j, columns, tall, wide, square);
            for (int k = 0; k < wide; ++k) store(to + (j + k) * rows + i, square[k], tall);
        }
    });
}

// Pack a matrix of G blocks of H output rows, (G H, K), into panels for groups of `blocks` blocks
// of V outputs: panel[k][block][gate][lane].
template <class Real>
__attribute__((noinline)) void pack_outputs(const Real* weight, int64_t G, int64_t H, int64_t K, int blocks, Real* packed, int64_t threads = 1) {
    constexpr int V = Lanes<Real>::n;
    const int64_t width = blocks * G * V, groups = (H + blocks * V - 1) / (blocks * V);
    parallel_for(groups, movers(G * H * K, threads), [&](int64_t group) {
        const int64_t first = group * blocks * V;
        Real* panel = packed + group * width * K;
        for (int block = 0; block < blocks; ++block)
            for (int64_t g = 0; g < G; ++g) {
                const int64_t unit = first + block * V;
                const int rows = unit >= H ? 0 : H - unit < V ? int(H - unit) : V;
                for (int64_t k = 0; k < K; k += V) {
                    const int columns = K - k < V ? int(K - k) : V;
                    Vec<Real> square[V];
                    transpose<Real>(weight + (g * H + unit) * K + k, K, rows, columns, square);
                    for (int i = 0; i < columns; ++i)
                        store<Real>(panel + (k + i) * width + (block * G + g) * V, square[i]);
                }
            }
    });
}

// Pack the columns of a matrix (K, H) into panels of N vectors: panel[k][j][lane].
template <class Real>
__attribute__((noinline)) void pack_columns(const Real* weight, int64_t K, int64_t H, int N, Real* packed, int64_t threads = 1) {
    constexpr int V = Lanes<Real>::n;
    parallel_for((H + N * V - 1) / (N * V), movers(K * H, threads), [&](int64_t group) {
        const int64_t first = group * N * V;
        Real* panel = packed + first * K;
        for (int64_t k = 0; k < K; ++k)
            for (int j = 0; j < N; ++j) {
                const int64_t unit = first + j * V;
                const int count = unit >= H ? 0 : H - unit < V ? int(H - unit) : V;
                const Vec<Real> v = count ? load(weight + k * H + unit, count) : Vec<Real>{};
                store<Real>(panel + (k * N + j) * V, v);
            }
    });
}

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Return the panel width in vectors, chosen to leave few lanes idle.
template <class Real> inline int vectors_of(int64_t outputs) {
    const int64_t vectors = (outputs + Lanes<Real>::n - 1) / Lanes<Real>::n;
    if (vectors <= 4) return int(vectors);
    return round_up(vectors, 3) < round_up(vectors, 4) ? 3 : 4;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
