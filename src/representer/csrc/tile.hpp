// Products of a few rows with packed weights, kept in registers.
//
//   acc[r][j] += sum_k a[r][k] * panel[k][j]        r < M rows, j < N vectors
//
// A panel holds, for every k, the N vectors that belong to one group of outputs, one after the
// other and padded with zeros. The number of rows is chosen so that the accumulators, one
// broadcast and the panel's vectors fit the registers of the instruction set.
#pragma once

#include "vec.hpp"

namespace representer {
namespace REPRESENTER_ISA {

// Doubles make do with half of the 32 registers of AVX-512: code for every number of rows takes long to compile.
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

// Transposes V vectors of V lanes, in place, by exchanging what lies S apart. S is known to the compiler:
// shuffles by numbers that are computed cost three times as much.
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

// Transposes V rows of V entries each, read from rows `stride` apart.
template <class Real> inline void transpose(const Real* from, int64_t stride, int rows, int columns, Vec<Real>* to) {
    for (int i = 0; i < Lanes<Real>::n; ++i) to[i] = i < rows ? load(from + i * stride, columns) : Vec<Real>{};
    transpose<Real>(to);
}

// The sums over the lanes of V vectors, as the lanes of one.
template <class Real> __attribute__((noinline)) Vec<Real> sums(Vec<Real>* partial) {
    transpose<Real>(partial);
    Vec<Real> total = partial[0];
    for (int i = 1; i < Lanes<Real>::n; ++i) total += partial[i];
    return total;
}

constexpr int64_t FEW = 8;  // rows up to which weights are not packed

// Lane-wise sums of a row of weights times a vector.
template <class Real> REPRESENTER_INLINE Vec<Real> dot(const Real* weights, const Real* v, int64_t K) {
    constexpr int V = Lanes<Real>::n;
    Vec<Real> acc[4] = {};
    int64_t k = 0;
    for (; k + 4 * V <= K; k += 4 * V)
        for (int i = 0; i < 4; ++i) acc[i] += load<Real>(weights + k + i * V) * load<Real>(v + k + i * V);
    for (; k < K; k += V) {
        const int count = K - k < V ? int(K - k) : V;
        acc[0] += load(weights + k, count) * load(v + k, count);
    }
    return (acc[0] + acc[1]) + (acc[2] + acc[3]);
}

// to (columns, rows) = from (rows, columns) transposed, in squares that stay in the cache.
template <class Real> __attribute__((noinline)) void transpose_matrix(const Real* from, int64_t rows, int64_t columns, Real* to) {
    constexpr int V = Lanes<Real>::n;
    for (int64_t i = 0; i < rows; i += V)
        for (int64_t j = 0; j < columns; j += V) {
            const int tall = rows - i < V ? int(rows - i) : V, wide = columns - j < V ? int(columns - j) : V;
            Vec<Real> square[V];
            transpose<Real>(from + i * columns + j, columns, tall, wide, square);
            for (int k = 0; k < wide; ++k) store(to + (j + k) * rows + i, square[k], tall);
        }
}

// Packs a matrix of G blocks of H output rows, (G H, K), into panels for groups of `blocks` blocks
// of V outputs: panel[k][block][gate][lane].
template <class Real> __attribute__((noinline)) void pack_outputs(const Real* weight, int64_t G, int64_t H, int64_t K, int blocks, Real* packed) {
    constexpr int V = Lanes<Real>::n;
    const int64_t width = blocks * G * V;
    for (int64_t first = 0; first < H; first += blocks * V) {
        Real* panel = packed + first / (blocks * V) * width * K;
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
    }
}

// Packs a matrix (K, H) by its columns into panels of N vectors: panel[k][j][lane].
template <class Real> __attribute__((noinline)) void pack_columns(const Real* weight, int64_t K, int64_t H, int N, Real* packed) {
    constexpr int V = Lanes<Real>::n;
    for (int64_t first = 0; first < H; first += N * V) {
        Real* panel = packed + first * K;
        for (int64_t k = 0; k < K; ++k)
            for (int j = 0; j < N; ++j) {
                const int64_t unit = first + j * V;
                const int count = unit >= H ? 0 : H - unit < V ? int(H - unit) : V;
                const Vec<Real> v = count ? load(weight + k * H + unit, count) : Vec<Real>{};
                store<Real>(panel + (k * N + j) * V, v);
            }
    }
}

// How many vectors a group of outputs is wide, so that few lanes stay idle.
template <class Real> inline int vectors_of(int64_t outputs) {
    const int64_t vectors = (outputs + Lanes<Real>::n - 1) / Lanes<Real>::n;
    if (vectors <= 4) return int(vectors);
    return vectors <= 9 && vectors % 4 && vectors % 3 == 0 ? 3 : 4;
}

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace REPRESENTER_ISA
}  // namespace representer
