// rkm_scan forward: one parallel region for the whole sequence. The batch is split over the threads,
// without barriers. The pointwise part follows each product while its result is in L1.
#pragma once

#include "core.hpp"
#include "layer_norm.hpp"
#include "parallel.hpp"
#include "status.hpp"
#include "tile.hpp"
#include "usual.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

// One thread's part of the batch, and the state carried from step to step. State rows are padded
// to whole vectors.
template <class Real> class Forward {
    static constexpr int V = Lanes<Real>::n, MOST_GATES = 4;
    static constexpr int64_t MANY = 128;  // units; below, the processor itself loads what comes next

  public:
    __attribute__((noinline)) Forward(const RepresenterForward& args, int64_t first, int64_t last)
        : p(args), first(first), rows(last - first), H(args.units), padded(round_up(H, V)),
          usual(is_usual<Real>(args.cell) && !args.norm && !args.hold && !args.fresh), h_state(2 * rows * padded), c_state(rows * padded),
          late_o(args.norm ? rows * padded : 0), late_c(args.norm ? rows * padded : 0) {
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t j = 0; j < H; ++j) {
                h_old()[r * padded + j] = static_cast<const Real*>(p.h0)[(first + r) * H + j];
                c_state.at(0)[r * padded + j] = static_cast<const Real*>(p.c0)[(first + r) * H + j];
            }
    }

    // One step of a few rows with weights that are not packed.
    void step_by_dots(const Real* bias_panels) {
        const int G = p.cell.gates, unseen = G - p.cell.seen;
        const Workspace<Real> z(rows * G * H, false);
        const Real* weight = static_cast<const Real*>(p.weight);
        product_of_few<Real, false>(static_cast<const Real*>(p.input_weight), G * H, p.features,
                                    static_cast<const Real*>(p.x), p.x_batch, rows, z.at(0), G * H);
        product_of_few<Real, true>(weight, p.cell.seen * H, H, h_old(), padded, rows, z.at(unseen * H), G * H);
        for (int64_t unit = 0; unit < H; unit += V) {
            const int count = H - unit < V ? int(H - unit) : V;
            for (int64_t r = 0; r < rows; ++r) {
                alignas(64) Vec<Real> a[MOST_GATES];
                for (int g = 0; g < G; ++g)
                    a[g] = load<Real>(bias_panels + (unit / V * G + g) * V) + load(z.at((r * G + g) * H + unit), count);
                write_cells<0>(0, r, 1, unit, 1, a);
            }
        }
        if (p.norm) emit_normalized(0);
        now ^= 1;
        finish();
    }

    template <int G, int R, int BLOCKS>
    void run(const Real* bias_panels, const Real* input_panels, const Real* panels) {
        constexpr int most = rows_of<Real, G * BLOCKS>();
        const int64_t groups = (H + BLOCKS * V - 1) / (BLOCKS * V), tiles = (rows + most - 1) / most;
        for (int64_t s = 0; s < p.time; ++s) {
            const int64_t t = p.reverse ? p.time - 1 - s : s;
            for (int64_t group = 0; group < groups; ++group)
                for (int64_t tile = 0; tile < tiles; ++tile) {
                    const int64_t row = share(rows, tiles, tile);
                    step_rows<G, R, BLOCKS, most>(int(share(rows, tiles, tile + 1) - row), t, row, group,
                                                  bias_panels, input_panels, panels);
                }
            if (p.norm) emit_normalized(t);
            now ^= 1;
        }
        finish();
    }

  private:
    const RepresenterForward& p;
    const int64_t first, rows, H, padded;
    const bool usual;
    Workspace<Real> h_state, c_state, late_o, late_c;
    int now = 0;  // the half of h_state that holds the previous emission

    __attribute__((noinline)) void finish() {
        for (int64_t r = 0; r < rows; ++r) {
            std::memcpy(static_cast<Real*>(p.h) + (first + r) * H, h_old() + r * padded, H * sizeof(Real));
            std::memcpy(static_cast<Real*>(p.c) + (first + r) * H, c_state.at(r * padded), H * sizeof(Real));
        }
    }

    Real* h_old() { return h_state.at(now * rows * padded); }
    Real* h_new() { return h_state.at((now ^ 1) * rows * padded); }

    // Dispatch to step<M> for the given number of rows.
    template <int G, int R, int BLOCKS, int M>
    void step_rows(int m, int64_t t, int64_t row, int64_t group, const Real* bias_panels, const Real* input_panels,
                   const Real* panels) {
        if constexpr (M > 1)
            if (m < M) return step_rows<G, R, BLOCKS, M - 1>(m, t, row, group, bias_panels, input_panels, panels);
        step<G, R, BLOCKS, M>(t, row, group, bias_panels, input_panels, panels);
    }

    template <int G, int R, int BLOCKS, int M>
    __attribute__((noinline)) void step(int64_t t, int64_t row, int64_t group, const Real* bias_panels,
                                        const Real* input_panels, const Real* panels) {
        constexpr int N = G * BLOCKS;
        Vec<Real> acc[M][N];
        const Real* x[M];
        const Real* h[M];
        for (int r = 0; r < M; ++r) {
            x[r] = static_cast<const Real*>(p.x) + t * p.x_time + (first + row + r) * p.x_batch;
            h[r] = h_old() + (row + r) * padded;
        }
        for (int j = 0; j < N; ++j) {
            const Vec<Real> bias = load<Real>(bias_panels + (group * N + j) * V);
            for (int r = 0; r < M; ++r) acc[r][j] = bias;
        }
        if (!p.input_weight)
            for (int block = 0; block < BLOCKS; ++block) {
                const int64_t unit = (group * BLOCKS + block) * V;
                if (unit >= H) break;
                const int count = H - unit < V ? int(H - unit) : V;
                for (int r = 0; r < M; ++r)
                    for (int g = 0; g < G; ++g) acc[r][block * G + g] += load(x[r] + g * H + unit, count);
                if (H >= MANY)  // those of the next group arrive during the product
                    for (int r = 0; r < M; ++r)
                        for (int g = 0; g < G; ++g) __builtin_prefetch(x[r] + g * H + unit + (BLOCKS + 1) * V - 1);
            }
        if constexpr (R == G) {  // one loop, compiled once, for both products
            for (int of_h = p.input_weight ? 0 : 1; of_h < (p.cell.seen ? 2 : 1); ++of_h) {
                const int64_t K = of_h ? H : p.features;
                multiply<Real, M, N>(acc, of_h ? h : x, K, (of_h ? panels : input_panels) + group * N * V * K);
            }
        } else {
            if (p.input_weight) multiply<Real, M, N>(acc, x, p.features, input_panels + group * N * V * p.features);
            multiply<Real, M, N, N - R * BLOCKS>(acc, h, H, panels + group * R * BLOCKS * V * H);
        }
        alignas(64) Vec<Real> a[M][N];
        for (int r = 0; r < M; ++r)
            for (int j = 0; j < N; ++j) a[r][j] = acc[r][j];
        const int64_t unit = group * BLOCKS * V;
        if constexpr (HAS_USUAL<Real>)
            if (usual) return write_cells<G>(t, row, M, unit, BLOCKS, &a[0][0]);
        write_cells<0>(t, row, M, unit, BLOCKS, &a[0][0]);
    }

    // Process vectors of units starting at `first_unit`, for a usual cell with USUAL gates, or for any cell if 0.
    template <int USUAL>
    __attribute__((noinline)) void write_cells(int64_t t, int64_t row, int m, int64_t first_unit, int blocks, Vec<Real>* a) {
        const int G = USUAL ? USUAL : p.cell.gates;
        for (int block = 0; block < blocks; ++block) {
            const int64_t unit = first_unit + block * V;
            if (unit >= H) break;
            for (int r = 0; r < m; ++r) write_cell<USUAL>(t, row + r, unit, a + (r * blocks + block) * G);
        }
    }

    template <int USUAL> REPRESENTER_INLINE void write_cell(int64_t t, int64_t row, int64_t unit, Vec<Real>* a) {
        const int G = USUAL ? USUAL : p.cell.gates;
        const RepresenterCell& cell = USUAL ? USUAL_CELLS[USUAL] : p.cell;
        const int count = H - unit < V ? int(H - unit) : V;
        const int64_t at = (t * p.batch + first + row) * H + unit, own = row * padded + unit;
        const Real* fixed = static_cast<const Real*>(p.gate_values);
        int g = 0;
        const Vec<Real> candidate = a[0] = value<Real>(cell.candidate, a[0]);
        for (int k = 1; k < G; ++k) a[k] = sigmoid<Real>(a[k]);
        if (p.gates)
            for (int k = 0; k < G; ++k)
                store(static_cast<Real*>(p.gates) + (at - unit) * G + k * H + unit, a[k], count);
        const Vec<Real> i = cell.input_gate == 0 ? a[++g] : cell.input_gate == 2 ? load(fixed + unit, count) : Vec<Real>{};
        Vec<Real> c, old_c = load<Real>(c_state.at(own)), old_h = load<Real>(h_old() + own);
        Vec<Real> memory = cell.memory == 0 ? old_c : cell.memory == 1 ? old_h : expm1<Real>(old_c);
        if (cell.forget_gate == 2) {
            c = i * candidate;
        } else {
            const Vec<Real> f = cell.forget_gate == 0 ? a[++g] : load(fixed + H + unit, count);
            c = cell.input_gate == 1 ? candidate + f * (memory - candidate) : i * candidate + f * memory;
        }
        const Vec<Real> o = cell.output_gate ? a[G - 1] : splat<Real>(1);
        if (!USUAL && p.fresh) store(static_cast<Real*>(p.fresh) + at, c, count);
        if (!USUAL && p.norm) {
            store<Real>(late_c.at(own), c);
            store<Real>(late_o.at(own), o);
        } else {
            emit<USUAL>(t, row, unit, c, o);
        }
    }

    void emit_normalized(int64_t t) {
        for (int64_t row = 0; row < rows; ++row) {
            normalize(late_c.at(row * padded), static_cast<const Real*>(p.norm), H, p.epsilon);
            for (int64_t unit = 0; unit < H; unit += V) {
                const int64_t own = row * padded + unit;
                emit<0>(t, row, unit, load<Real>(late_c.at(own)), load<Real>(late_o.at(own)));
            }
        }
    }

    template <int USUAL> REPRESENTER_INLINE void emit(int64_t t, int64_t row, int64_t unit, Vec<Real> c, Vec<Real> o) {
        const RepresenterCell& cell = USUAL ? USUAL_CELLS[USUAL] : p.cell;
        const int count = H - unit < V ? int(H - unit) : V;
        const int64_t b = first + row, at = (t * p.batch + b) * H + unit, own = row * padded + unit;
        const bool real = !p.lengths || t < p.lengths[b];
        Vec<Real> h = value<Real>(cell.output, c);
        if (cell.output_gate) h *= o;
        const Vec<Real> old_c = load<Real>(c_state.at(own)), old_h = load<Real>(h_old() + own);
        if (!USUAL && p.hold) {
            const Real* hold = static_cast<const Real*>(p.hold) + at;
            c += load(hold, count) * (old_c - c);
            h += load(hold + p.time * p.batch * H, count) * (old_h - h);
        }
        store(static_cast<Real*>(p.output) + at, real ? h : Vec<Real>{}, count);
        if (!real) c = old_c, h = old_h;
        store<Real>(c_state.at(own), c);  // whole vectors: rows end in padding that is never read
        store<Real>(h_new() + own, h);
        if (p.cells) store(static_cast<Real*>(p.cells) + at, c, count);
    }
};

// Panels of biases, input matrices and recurrent matrices, one after another, for either R gates that depend on the
// previous emission, or none.
template <class Real, int G, int R, int BLOCKS> struct PackedWeights {
    static constexpr int V = Lanes<Real>::n;
    const RepresenterForward& p;
    const int64_t wide, of_input;

    explicit PackedWeights(const RepresenterForward& args)
        : p(args), wide(round_up(args.units, BLOCKS * V)), of_input(args.input_weight ? wide * G * args.features : 0) {}

    int64_t biases() const { return wide * G; }
    int64_t all() const { return biases() + of_input + (p.cell.seen ? wide * R * p.units : 0); }
    template <class At> At* input(At* packed) const { return packed + biases(); }
    template <class At> At* recurrent(At* packed) const { return packed + biases() + of_input; }

    void pack_biases(Real* packed) const {
        std::memset(packed, 0, biases() * sizeof(Real));
        for (int64_t k = 0; k < p.biased; ++k)
            for (int64_t j = 0; j < p.units; ++j)
                packed[(j / V * G + G - p.biased + k) * V + j % V] = static_cast<const Real*>(p.bias)[k * p.units + j];
    }
    void pack(Real* packed) const {
        pack_biases(packed);
        if (p.input_weight)
            pack_outputs(static_cast<const Real*>(p.input_weight), G, p.units, p.features, BLOCKS, input(packed), p.threads);
        if (p.cell.seen) pack_outputs(static_cast<const Real*>(p.weight), R, p.units, p.units, BLOCKS, recurrent(packed), p.threads);
    }
};

template <class Real, int G, int R, int BLOCKS> int forward_of(const RepresenterForward& p, bool only_pack) {
    const PackedWeights<Real, G, R, BLOCKS> weights(p);
    if (only_pack) return p.packed ? weights.pack(static_cast<Real*>(p.packed)), OK : UNSUPPORTED;
    // a single step is too little work to pack the weights for
    const bool by_dots = !p.packed && p.time == 1 && p.batch <= FEW && p.input_weight;
    const Workspace<Real> own(p.packed ? 0 : by_dots ? weights.biases() : weights.all(), false);
    const Real* packed = p.packed ? static_cast<const Real*>(p.packed) : own.at(0);
    if (by_dots) return weights.pack_biases(own.at(0)), Forward<Real>(p, 0, p.batch).step_by_dots(packed), OK;
    if (!p.packed) weights.pack(own.at(0));
    const int64_t entries = p.time * p.batch * p.units;
    use_large_pages(static_cast<Real*>(p.output), entries);
    use_large_pages(static_cast<Real*>(p.gates), entries * G);
    use_large_pages(static_cast<Real*>(p.cells), entries);
    const int64_t threads = p.threads < p.batch ? p.threads : p.batch;
    parallel_for(threads, threads, [&](int64_t i) {
        Forward<Real>(p, share(p.batch, threads, i), share(p.batch, threads, i + 1))
            .template run<G, R, BLOCKS>(packed, weights.input(packed), weights.recurrent(packed));
    });
    return OK;
}

template <class Real, bool ONLY_PACK> int forward(const RepresenterForward& p) {
    switch (p.cell.gates * 10 + p.cell.seen) {
        case 10:
        case 11:
            if (p.units <= 2 * Lanes<Real>::n) return forward_of<Real, 1, 1, 2>(p, ONLY_PACK);  // no idle vectors
            return forward_of<Real, 1, 1, 4>(p, ONLY_PACK);
        case 20:
        case 22: return forward_of<Real, 2, 2, 2>(p, ONLY_PACK);
        case 32: return forward_of<Real, 3, 2, 1>(p, ONLY_PACK);
        case 33: return forward_of<Real, 3, 3, 1>(p, ONLY_PACK);
        case 44: return forward_of<Real, 4, 4, 1>(p, ONLY_PACK);
        default: return UNSUPPORTED;
    }
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
