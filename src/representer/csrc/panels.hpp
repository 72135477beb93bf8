// Products of matrix rows with prepacked weights, and sums of outer products over rows.
//
// Rows are strided, and the caller supplies the initial value and the destination of a product: adding
// a bias, applying an activation or writing into columns of a wider matrix needs no extra pass.
#pragma once

#include <type_traits>

#include "parallel.hpp"
#include "tile.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

constexpr int PAIR = 2;                         // vectors per panel: this tile shape needs the fewest
template <class Real> constexpr int TILE_ROWS = ACCUMULATORS<Real> / PAIR;  // loads per multiply-add
constexpr int64_t NEAR = 96;                    // rows per block; a block stays in the cache for all panels

// Return the number of columns from `column` to the end, clamped to [0, lanes of a vector].
template <class Real> REPRESENTER_INLINE int lanes_left(int64_t columns, int64_t column) {
    const int64_t left = columns - column;
    return left < Lanes<Real>::n ? (left < 0 ? 0 : int(left)) : Lanes<Real>::n;
}

// Call f(column, count) for each vector of a row; count is a compile-time constant except for the tail.
template <class Real, class F> REPRESENTER_INLINE void each_vector(int64_t columns, F f) {
    constexpr int V = Lanes<Real>::n;
    int64_t c = 0;
    for (; c + V <= columns; c += V) f(c, V);
    if (c < columns) f(c, int(columns - c));
}

template <int M, class F> REPRESENTER_INLINE void with_rows(int rows, F f) {
    if constexpr (M > 1)
        if (rows < M) return with_rows<M - 1>(rows, f);
    f(std::integral_constant<int, M>{});
}

// Call f(M, row) for tiles of M rows; the heights of the tiles differ by at most one.
template <class Real, class F> void each_tile(int64_t rows, F f) {
    const int64_t tiles = (rows + TILE_ROWS<Real> - 1) / TILE_ROWS<Real>;
    for (int64_t i = 0; i < tiles; ++i) {
        const int64_t row = share(rows, tiles, i);
        with_rows<TILE_ROWS<Real>>(int(share(rows, tiles, i + 1) - row), [&](auto M) { f(M, row); });
    }
}

template <class Real> class Panels {
    static constexpr int V = Lanes<Real>::n;
    static constexpr int64_t WIDE = PAIR * V;

  public:
    Panels(int64_t depth, int64_t outputs)
        : depth(depth), outputs(outputs), packed(round_up(outputs, WIDE) * depth, false) {}

    void pack_transposed(const Real* weight) {  // (outputs, depth)
        pack_outputs(weight, 1, outputs, depth, PAIR, packed.at(0));
    }
    void pack(const Real* weight) {  // (depth, outputs)
        pack_columns(weight, depth, outputs, PAIR, packed.at(0));
    }

    // to[row] = start[row] + a[row] W[from : from + inputs] for all rows. `start` may be null; its row stride is
    // `start_row` (0 broadcasts one row). Calls after(row, rows, column, columns) after each tile.
    template <class After>
    void multiply_rows(
        const Real* a, int64_t a_row, int64_t from, int64_t inputs, int64_t rows, int threads, const Real* start,
        int64_t start_row, Real* to, int64_t to_row, After after) const {
        const int64_t shares = threads < rows ? threads : rows;
        parallel_for(shares, shares, [&](int64_t i) {
            const int64_t last = share(rows, shares, i + 1);
            for (int64_t near = share(rows, shares, i); near < last; near += NEAR)
                for (int64_t column = 0; column < outputs; column += WIDE)
                    each_tile<Real>(last - near < NEAR ? last - near : NEAR, [&](auto M, int64_t tile_row) {
                        const int64_t row = near + tile_row;
                        tile<decltype(M)::value>(
                            a + row * a_row, a_row, from, inputs, column, start ? start + row * start_row : nullptr,
                            start_row, to + row * to_row, to_row);
                        after(row, int64_t(M), column, outputs - column < WIDE ? outputs - column : WIDE);
                    });
        });
    }

  private:
    const int64_t depth, outputs;
    Workspace<Real> packed;

    template <int M>
    __attribute__((noinline)) void tile(
        const Real* a, int64_t a_row, int64_t from, int64_t inputs, int64_t column, const Real* start,
        int64_t start_row, Real* to, int64_t to_row) const {
        Vec<Real> acc[M][PAIR] = {};
        const Real* rows[M];
        const bool whole = column + WIDE <= outputs;
        for (int r = 0; r < M; ++r) rows[r] = a + r * a_row;
        if (start)
            each_vector_of<M>(column, whole, [&](int r, int j, int count) {
                acc[r][j] = load(start + r * start_row + column + j * V, count);
            });
        multiply<Real, M, PAIR>(acc, rows, inputs, packed.at(column * depth + from * WIDE));
        each_vector_of<M>(column, whole, [&](int r, int j, int count) {
            store(to + r * to_row + column + j * V, acc[r][j], count);
        });
    }
    // Call f(r, j, count) for each vector of a tile; in a full tile count is a compile-time constant.
    template <int M, class F> REPRESENTER_INLINE void each_vector_of(int64_t column, bool whole, F f) const {
        if (whole) {
            for (int r = 0; r < M; ++r)
                for (int j = 0; j < PAIR; ++j) f(r, j, V);
            return;
        }
        for (int r = 0; r < M; ++r)
            for (int j = 0; j < PAIR; ++j)
                if (const int count = lanes_left<Real>(outputs, column + j * V)) f(r, j, count);
    }
};

template <class Real, int M>
REPRESENTER_INLINE void add_tile(const Vec<Real> (&acc)[M][PAIR], Real* c, int64_t c_row, const int (&left)[PAIR]) {
    constexpr int V = Lanes<Real>::n;
    if (left[PAIR - 1] == V) {  // full tile: no branches
        for (int r = 0; r < M; ++r, c += c_row)
            for (int j = 0; j < PAIR; ++j) store<Real>(c + j * V, load<Real>(c + j * V) + acc[r][j]);
        return;
    }
    for (int r = 0; r < M; ++r, c += c_row)
        for (int j = 0; j < PAIR; ++j)
            if (left[j]) store(c + j * V, load(c + j * V, left[j]) + acc[r][j], left[j]);
}

// C (m, n) += A' B with A (rows, m) contiguous and B (rows, n). If `total` is given, also add the column sums
// of B to it.
template <class Real>
void add_outer(
    const Real* a, int64_t m, const Real* b, int64_t b_row, int64_t n, int64_t rows, int threads, Real* c,
    int64_t c_row, Real* total) {
    constexpr int V = Lanes<Real>::n;
    constexpr int64_t WIDE = PAIR * V;
    const int64_t groups = (n + WIDE - 1) / WIDE, shares = threads < groups ? threads : groups;
    Workspace<Real> scratch(shares * NEAR * (m + WIDE), false);
    parallel_for(shares, shares, [&](int64_t i) {
        Real *turned = scratch.at(i * NEAR * (m + WIDE)), *panel = turned + NEAR * m;
        const int64_t end = share(groups, shares, i + 1) * WIDE;
        const int64_t slices = (rows + NEAR - 1) / NEAR;
        for (int64_t slice = 0; slice < slices; ++slice) {
            const int64_t first = share(rows, slices, slice), count = share(rows, slices, slice + 1) - first;
            transpose_matrix(a + first * m, count, m, turned);
            for (int64_t column = share(groups, shares, i) * WIDE; column < end && column < n; column += WIDE) {
                const int left[PAIR] = {lanes_left<Real>(n, column), lanes_left<Real>(n, column + V)};
                Vec<Real> sums[PAIR] = {};
                for (int64_t k = 0; k < count; ++k)
                    for (int j = 0; j < PAIR; ++j) {
                        const Real* from = b + (first + k) * b_row + column + j * V;
                        const Vec<Real> v = left[PAIR - 1] == V ? load<Real>(from)
                                            : left[j]           ? load(from, left[j])
                                                                : Vec<Real>{};
                        sums[j] += v;
                        store<Real>(panel + (k * PAIR + j) * V, v);
                    }
                for (int j = 0; j < PAIR && total; ++j)
                    if (left[j]) {
                        Real* to = total + column + j * V;
                        store(to, load(to, left[j]) + sums[j], left[j]);
                    }
                each_tile<Real>(m, [&](auto M, int64_t row) {
                    Vec<Real> acc[M][PAIR] = {};
                    const Real* of[M];
                    for (int r = 0; r < M; ++r) of[r] = turned + (row + r) * count;
                    multiply<Real, M, PAIR>(acc, of, count, panel);
                    add_tile<Real, M>(acc, c + row * c_row + column, c_row, left);
                });
            }
        }
    });
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
