// Products of the string-kernel cells with packed weights: those with x for blocks of steps, and those with h.
#pragma once

#include "core.hpp"
#include "gemm.hpp"
#include "parallel.hpp"
#include "status.hpp"
#include "tile.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

enum Decay { ONE_DECAY, DECAY_OF_UNIT, GATE, STATE_GATE };

// to[r][j] = sum_k from[r][k] V[j][k] for rows [first, last), in panels of N vectors.
template <class Real, int N> class RowsByPanels {
    static constexpr int V = Lanes<Real>::n, MOST = rows_of<Real, N>();

  public:
    RowsByPanels(const Real* panels, int64_t K, int64_t outputs) : panels(panels), K(K), outputs(outputs) {}

    void run(const Real* from, int64_t stride, int64_t rows, Real* to, int64_t to_stride) const {
        const int64_t tiles = (rows + MOST - 1) / MOST;
        for (int64_t column = 0; column < outputs; column += N * V)
            for (int64_t tile = 0; tile < tiles; ++tile) {
                const int64_t row = share(rows, tiles, tile);
                some<MOST>(int(share(rows, tiles, tile + 1) - row), from + row * stride, stride,
                           to + row * to_stride + column, to_stride, column);
            }
    }

  private:
    const Real* panels;
    const int64_t K, outputs;

    template <int M> void some(int m, const Real* from, int64_t stride, Real* to, int64_t to_stride, int64_t column) const {
        if constexpr (M > 1)
            if (m < M) return some<M - 1>(m, from, stride, to, to_stride, column);
        Vec<Real> acc[M][N];
        const Real* a[M];
        for (int r = 0; r < M; ++r) {
            a[r] = from + r * stride;
            for (int j = 0; j < N; ++j) acc[r][j] = Vec<Real>{};
        }
        multiply<Real, M, N>(acc, a, K, panels + column * K);
        for (int j = 0; j < N && column + j * V < outputs; ++j)
            for (int r = 0; r < M; ++r) store<Real>(to + r * to_stride + j * V, acc[r][j]);
    }
};

constexpr int STATE_VECTORS = 4;  // per panel of the recurrent matrix

// Panels of the weights on x, and of those on h, one after another.
template <class Real> struct PackedChain {
    static constexpr int V = Lanes<Real>::n;
    const RepresenterStringForward& p;
    const int64_t outputs;
    const int N;  // vectors per panel of the weights on x
    const int64_t of_input, of_state;

    explicit PackedChain(const RepresenterStringForward& args)
        : p(args), outputs(args.chain.products * args.units), N(vectors_of<Real>(outputs)),
          of_input(args.input_weight ? round_up(outputs, N * V) * args.features : 0),
          of_state(args.chain.decay == STATE_GATE ? round_up(args.units, STATE_VECTORS * V) * args.units : 0) {}

    void pack_input(Real* to) const {
        if (of_input) pack_outputs(static_cast<const Real*>(p.input_weight), 1, outputs, p.features, N, to, p.threads);
    }
    void pack_state(Real* to) const {
        if (of_state) pack_outputs(static_cast<const Real*>(p.weight), 1, p.units, p.units, STATE_VECTORS, to, p.threads);
    }
};

// Products of x with the weights, for a block of steps at a time.
template <class Real> class InputProducts {
    static constexpr int V = Lanes<Real>::n;

  public:
    explicit InputProducts(const RepresenterStringForward& args)
        : p(args), weights(args), outputs(weights.outputs), few(!p.packed && p.time == 1 && p.batch <= FEW),
          own(few || p.packed ? 0 : weights.of_input, false), packed(p.packed ? static_cast<const Real*>(p.packed) : own.at(0)) {
        if (!few && !p.packed) weights.pack_input(own.at(0));
    }

    void run(int64_t row, int64_t rows, Real* z) const {
        const Real* x = static_cast<const Real*>(p.x) + row * p.features;
        if (few)
            return product_of_few<Real, false>(
                static_cast<const Real*>(p.input_weight), outputs, p.features, x, p.features, rows, z, outputs);
        const RepresenterProduct q{rows, outputs, p.features, p.threads, x, nullptr, z, p.features};
        const int64_t threads = p.threads < rows ? p.threads : rows;
        parallel_for(threads, threads, [&](int64_t i) {
            const int64_t first = share(rows, threads, i), last = share(rows, threads, i + 1);
            product_rows(q, weights.N, packed, first, last);
        });
    }

  private:
    const RepresenterStringForward& p;
    const PackedChain<Real> weights;
    const int64_t outputs;
    const bool few;  // a single step is too little work to pack the weights for
    const Workspace<Real> own;
    const Real* const packed;
};

template <class Real> int string_pack(const RepresenterStringForward& p) {
    if (!p.packed) return UNSUPPORTED;
    const PackedChain<Real> weights(p);
    weights.pack_input(static_cast<Real*>(p.packed));
    weights.pack_state(static_cast<Real*>(p.packed) + weights.of_input);
    return OK;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
