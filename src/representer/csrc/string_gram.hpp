// Gram matrix of the string kernel: one sequence x against V sequences y at a time, one per lane.
//
//   S[s, t]   = <x_s, y_t>, or [x_s = y_t] for integer tokens
//   R_j[s, t] = lam R_j[s, t-1] + S[s, t] K_{j-1}[s-1, t-1]        filter along y, K_0 = 1
//   K_j[s, t] = lam K_j[s-1, t] + R_j[s, t]                        filter along x
//
// Unlike K_j[s,t] = lam K_j[s-1,t] + lam K_j[s,t-1] - lam^2 K_j[s-1,t-1] + .., the two filters need
// no subtraction. The y of a group are left-padded to equal length with tokens that match nothing, so
// that all end in the same step; S is computed a few rows at a time to stay in the cache.
#pragma once

#include <limits>

#include "core.hpp"
#include "parallel.hpp"
#include "tile.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

template <class Real> class StringGram {
    static constexpr int V = Lanes<Real>::n, N = 3, MOST = rows_of<Real, N>();

  public:
    explicit StringGram(const RepresenterGram& args) : p(args), lam(Real(args.decay)) {}

    // Compute rows [first, last) of the Gram matrix, in the columns of one group of V.
    void run(int64_t group, int64_t first, int64_t last) const {
        const int64_t column = group * V, end = column + V < p.columns ? column + V : p.columns;
        if (p.symmetric && last > end) last = end;
        int64_t T = 0;
        for (int64_t j = column; j < end; ++j) T = length(p.y_starts, j) > T ? length(p.y_starts, j) : T;
        const int64_t panels = (T + N - 1) / N, wide = panels * N * V, depth = p.features ? p.features : 1;
        Workspace<Real> packed(wide * depth), similar(MOST * wide), chain(p.order * wide);
        pack(column, end, panels * N, packed.at(0));
        for (int64_t i = first; i < last; ++i) {
            if (wide) std::memset(chain.at(0), 0, p.order * wide * sizeof(Real));
            const Vec<Real> k = pair(i, panels, packed.at(0), similar.at(0), chain.at(0));
            store(static_cast<Real*>(p.output) + i * p.columns + column, k, int(end - column));
        }
    }

  private:
    const RepresenterGram& p;
    const Real lam;

    static int64_t length(const int64_t* starts, int64_t i) { return starts[i + 1] - starts[i]; }

    // Pack into to[panel][k][step][lane]; padding is a zero vector, or NaN for integer tokens
    void pack(int64_t column, int64_t end, int64_t T, Real* to) const {
        const int64_t d = p.features ? p.features : 1;
        if (!p.features)
            for (int64_t t = 0; t < T * V; ++t) to[t] = std::numeric_limits<Real>::quiet_NaN();
        for (int64_t j = column; j < end; ++j) {
            const int64_t own = length(p.y_starts, j);
            const Real* y = static_cast<const Real*>(p.y) + p.y_starts[j] * d;
            for (int64_t t = T - own; t < T; ++t, y += d)
                for (int64_t k = 0; k < d; ++k) to[((t / N * d + k) * N + t % N) * V + j - column] = y[k];
        }
    }

    // Return K_n of x_i with the sequences of the group, one per lane.
    Vec<Real> pair(int64_t i, int64_t panels, const Real* packed, Real* similar, Real* chain) const {
        const int64_t L = length(p.x_starts, i), d = p.features ? p.features : 1, T = panels * N;
        const Real* x = static_cast<const Real*>(p.x) + p.x_starts[i] * d;
        Vec<Real> total{};
        const int64_t tiles = (L + MOST - 1) / MOST;
        for (int64_t tile = 0; tile < tiles; ++tile) {
            const int64_t first = share(L, tiles, tile), rows = share(L, tiles, tile + 1) - first;
            tile_rows<MOST>(int(rows), x + first * d, panels, packed, similar);
            for (int64_t s = 0; s < rows; ++s) total = row(similar + s * T * V, T, chain, total);
        }
        return total;
    }

    template <int M> void tile_rows(int m, const Real* x, int64_t panels, const Real* packed, Real* to) const {
        if constexpr (M > 1)
            if (m < M) return tile_rows<M - 1>(m, x, panels, packed, to);
        similarities<M>(x, panels, packed, to);
    }

    template <int M>
    __attribute__((noinline)) void similarities(const Real* x, int64_t panels, const Real* packed, Real* to) const {
        const int64_t d = p.features;
        for (int64_t panel = 0; panel < panels; ++panel) {
            Vec<Real> acc[M][N];
            const Real* a[M];
            for (int r = 0; r < M; ++r) {
                a[r] = x + r * d;
                for (int j = 0; j < N; ++j) acc[r][j] = Vec<Real>{};
            }
            if (d) {
                multiply<Real, M, N>(acc, a, d, packed + panel * d * N * V);
            } else {
                for (int r = 0; r < M; ++r)
                    for (int j = 0; j < N; ++j) {
                        const Vec<Real> y = load<Real>(packed + (panel * N + j) * V);
                        acc[r][j] = y == splat<Real>(x[r]) ? splat<Real>(1) : Vec<Real>{};
                    }
            }
            for (int r = 0; r < M; ++r)
                for (int j = 0; j < N; ++j) store<Real>(to + ((r * panels + panel) * N + j) * V, acc[r][j]);
        }
    }

    // Extend the prefix of x by one step: update K_1..K_{n-1} in place.
    Vec<Real> row(const Real* similar, int64_t T, Real* chain, Vec<Real> total) const {
        switch (p.order) {
            case 1: return row_of<1>(similar, T, chain, total);
            case 2: return row_of<2>(similar, T, chain, total);
            case 3: return row_of<3>(similar, T, chain, total);
            case 4: return row_of<4>(similar, T, chain, total);
            default: return long_row(similar, T, chain, total);
        }
    }

    template <int ORDER> Vec<Real> row_of(const Real* similar, int64_t T, Real* chain, Vec<Real> total) const {
        const Real last = p.trailing ? lam : Real(1);
        Vec<Real> filtered[ORDER], before[ORDER];
        for (int j = 0; j < ORDER; ++j) filtered[j] = before[j] = Vec<Real>{};
        before[0] = splat<Real>(1);  // K_0[s-1, t-1]
        for (int64_t t = 0; t < T; ++t) {
            const Vec<Real> S = load<Real>(similar + t * V);
            Real* at = chain + t * (ORDER - 1) * V;
#pragma GCC unroll 4
            for (int j = ORDER - 1; j >= 0; --j)
                filtered[j] = filtered[j] * (j == ORDER - 1 ? last : lam) + S * before[j];
#pragma GCC unroll 4
            for (int j = 1; j < ORDER; ++j) {
                before[j] = load<Real>(at + (j - 1) * V);
                store<Real>(at + (j - 1) * V, before[j] * lam + filtered[j - 1]);
            }
        }
        return total * last + filtered[ORDER - 1];
    }

    // The same for any order, one power at a time, in descending order: each reads the chain of the
    // next shorter one from before this step of x.
    Vec<Real> long_row(const Real* similar, int64_t T, Real* chain, Vec<Real> total) const {
        for (int64_t j = p.order - 1; j >= 0; --j) {
            const bool is_last = j == p.order - 1;
            const Real decay = is_last && !p.trailing ? Real(1) : lam;
            const Real* shorter = chain + (j - 1) * T * V;
            Vec<Real> filtered{}, before = j ? Vec<Real>{} : splat<Real>(1);
            for (int64_t t = 0; t < T; ++t) {
                filtered = filtered * decay + load<Real>(similar + t * V) * before;
                if (j) before = load<Real>(shorter + t * V);
                if (is_last) continue;
                Real* own = chain + (j * T + t) * V;
                store<Real>(own, load<Real>(own) * lam + filtered);
            }
            if (is_last) total = total * decay + filtered;
        }
        return total;
    }
};

// Each task is a group of columns and a part of the rows, so that all threads have work.
template <class Real> int string_gram(const RepresenterGram& p) {
    constexpr int V = Lanes<Real>::n;
    const StringGram<Real> gram(p);
    const int64_t groups = (p.columns + V - 1) / V, wanted = p.threads > 1 ? 4 * p.threads : 1;
    const int64_t most = p.rows > 1 ? p.rows : 1, needed = (wanted + groups - 1) / (groups ? groups : 1);
    const int64_t parts = needed < most ? needed : most;
    parallel_for<DYNAMIC>(groups * parts, p.threads, [&](int64_t task) {
        gram.run(task / parts, share(p.rows, parts, task % parts), share(p.rows, parts, task % parts + 1));
    });
    return 0;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
