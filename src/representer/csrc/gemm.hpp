// GEMM: C (M, N) = A (M, K) B (K, N) for large K and small N, as in the gradient of the input,
// a shape that BLAS libraries handle poorly.
//
// B is packed once. A block of rows of A and a slice of B stay in L2.
#pragma once

#include "core.hpp"
#include "parallel.hpp"
#include "tile.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

constexpr int64_t SLICE = 768;  // along K; large, since each slice reads and writes C once
constexpr int64_t BLOCK = 96;   // along M

template <class Real, int N> class Product {
    static constexpr int V = Lanes<Real>::n, MOST = rows_of<Real, N>();
    static constexpr int64_t WIDE = N * V;

  public:
    Product(const RepresenterProduct& args, const Real* packed) : p(args), packed(packed) {}

    // Compute rows [first, last) of C.
    void run(int64_t first, int64_t last) {
        for (int64_t block = first; block < last; block += BLOCK) {
            const int64_t rows = last - block < BLOCK ? last - block : BLOCK, tiles = (rows + MOST - 1) / MOST;
            for (int64_t k = 0; k < p.k; k += SLICE)
                for (int64_t column = 0; column < p.n; column += WIDE)
                    for (int64_t tile = 0; tile < tiles; ++tile) {
                        const int64_t row = share(rows, tiles, tile);
                        tile_rows<MOST>(int(share(rows, tiles, tile + 1) - row), block + row, k, column);
                    }
        }
    }

  private:
    const RepresenterProduct& p;
    const Real* packed;

    template <int M> void tile_rows(int m, int64_t row, int64_t k, int64_t column) {
        if constexpr (M > 1)
            if (m < M) return tile_rows<M - 1>(m, row, k, column);
        multiply_tile<M>(row, k, column);
    }

    template <int M> __attribute__((noinline)) void multiply_tile(int64_t row, int64_t k, int64_t column) {
        const int64_t depth = p.k - k < SLICE ? p.k - k : SLICE;
        Vec<Real> acc[M][N];
        const Real* a[M];
        for (int r = 0; r < M; ++r) {
            a[r] = static_cast<const Real*>(p.a) + (row + r) * p.a_stride + k;
            for (int j = 0; j < N; ++j) acc[r][j] = Vec<Real>{};
        }
        multiply<Real, M, N>(acc, a, depth, packed + column * p.k + k * WIDE);
        Real* const c = static_cast<Real*>(p.c) + row * p.n + column;
        k ? write<M, true>(acc, c, p.n, p.n - column) : write<M, false>(acc, c, p.n, p.n - column);
    }

    // Whole vectors, most of them, are stored without masks.
    template <int M, bool ADD> static REPRESENTER_INLINE void write(const Vec<Real> (&acc)[M][N], Real* c, int64_t n, int64_t left) {
        for (int j = 0; j < N && left > 0; ++j, left -= V, c += V) {
            Real* to = c;
            if (left >= V) {
                for (int r = 0; r < M; ++r, to += n) store<Real>(to, ADD ? load<Real>(to) + acc[r][j] : acc[r][j]);
            } else {
                for (int r = 0; r < M; ++r, to += n) store(to, ADD ? load(to, int(left)) + acc[r][j] : acc[r][j], int(left));
            }
        }
    }
};

// Compute rows [first, last) of C in panels of N <= 4 vectors.
template <class Real>
void product_rows(const RepresenterProduct& p, int N, const Real* packed, int64_t first, int64_t last) {
    switch (N) {
        case 1: return Product<Real, 1>(p, packed).run(first, last);
        case 2: return Product<Real, 2>(p, packed).run(first, last);
        case 3: return Product<Real, 3>(p, packed).run(first, last);
        default: return Product<Real, 4>(p, packed).run(first, last);
    }
}
// Compiled in gemm.cpp.
extern template void product_rows(const RepresenterProduct&, int, const float*, int64_t, int64_t);
extern template void product_rows(const RepresenterProduct&, int, const double*, int64_t, int64_t);

template <class Real> int product(const RepresenterProduct& p) {
    if (!p.n) return 0;
    const int N = vectors_of<Real>(p.n);
    Workspace<Real> packed(round_up(p.n, N * Lanes<Real>::n) * p.k, false);
    pack_columns(static_cast<const Real*>(p.b), p.k, p.n, N, packed.at(0), p.threads);
    use_large_pages(static_cast<Real*>(p.c), p.m * p.n);
    const int64_t threads = p.threads < p.m ? p.threads : p.m;
    parallel_for(threads, threads, [&](int64_t i) {
        product_rows(p, N, packed.at(0), share(p.m, threads, i), share(p.m, threads, i + 1));
    });
    return 0;
}

template <class Real> int transposed(const RepresenterProduct& p) {
    use_large_pages(static_cast<Real*>(p.c), p.m * p.n);
    transpose_matrix(static_cast<const Real*>(p.a), p.m, p.n, static_cast<Real*>(p.c), p.threads);
    return 0;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
