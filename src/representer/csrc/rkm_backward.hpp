// rkm_scan backward: partitioned over threads as in forward, from the last step to the first. The
// equations are those of representer/ops/rkm_scan/reference.py:
//
//   e = dh_t + W' da_{t+1} + extra,   g = carried + e o psi'(c_t),   da = (g or e) * factor
//
// Products with the whole sequence (gradients of weights and inputs) are left to the caller.
#pragma once

#include "core.hpp"
#include "few_products.hpp"
#include "layer_norm.hpp"
#include "parallel.hpp"
#include "tile.hpp"
#include "usual.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

template <class Real> class Backward {
    static constexpr int V = Lanes<Real>::n;

  public:
    __attribute__((noinline)) Backward(const RepresenterBackward& args, int64_t first, int64_t last)
        : p(args), first(first), rows(last - first), H(args.units), padded(round_up(H, V)), G(args.cell.gates),
          usual(is_usual<Real>(args.cell) && !args.norm && !args.hold && !args.grad_fresh ? int(G) : 0), extra(rows * padded), carried(rows * padded), e_row(args.norm ? rows * padded : 0),
          g_row(args.norm ? rows * padded : 0) {
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t j = 0; j < H; ++j) {
                if (p.grad_h) extra.at(r * padded)[j] = static_cast<const Real*>(p.grad_h)[(first + r) * H + j];
                if (p.grad_c) carried.at(r * padded)[j] = static_cast<const Real*>(p.grad_c)[(first + r) * H + j];
            }
    }

    template <int N> void run(const Real* panels) {
        constexpr int most = rows_of<Real, N>();
        const int64_t groups = (H + N * V - 1) / (N * V), tiles = (rows + most - 1) / most;
        for (int64_t s = p.time - 1; s >= 0; --s) {
            const int64_t t = p.reverse ? p.time - 1 - s : s;
            const int64_t later = s == p.time - 1 ? -1 : p.reverse ? t - 1 : t + 1;
            for (int64_t group = 0; group < groups; ++group)
                for (int64_t tile = 0; tile < tiles; ++tile) {
                    const int64_t row = share(rows, tiles, tile);
                    step_rows<N, most>(int(share(rows, tiles, tile + 1) - row), t, later, row, group, panels);
                }
            if (p.norm)
                for (int64_t row = 0; row < rows; ++row) through_norm(t, row);
        }
        for (int64_t r = 0; r < rows; ++r) {
            std::memcpy(static_cast<Real*>(p.extra_h) + (first + r) * H, extra.at(r * padded), H * sizeof(Real));
            std::memcpy(static_cast<Real*>(p.grad_c0) + (first + r) * H, carried.at(r * padded), H * sizeof(Real));
        }
    }

  private:
    const RepresenterBackward& p;
    const int64_t first, rows, H, padded, G;
    const int usual;  // index into USUAL_CELLS; 0 for any other cell
    Workspace<Real> extra, carried, e_row, g_row;

    template <int N, int M> void step_rows(int m, int64_t t, int64_t later, int64_t row, int64_t group, const Real* panels) {
        if constexpr (M > 1)
            if (m < M) return step_rows<N, M - 1>(m, t, later, row, group, panels);
        step<N, M>(t, later, row, group, panels);
    }

    template <int N, int M>
    __attribute__((noinline)) void step(int64_t t, int64_t later, int64_t row, int64_t group, const Real* panels) {
        Vec<Real> acc[M][N];
        for (int r = 0; r < M; ++r)
            for (int j = 0; j < N; ++j) acc[r][j] = Vec<Real>{};
        if (later >= 0 && p.cell.seen) {
            const int64_t K = p.cell.seen * H;
            for (int r = 0; r < M; ++r) fetch(t, first + row + r, group * N * V, N * V);
            const Real* da[M];
            for (int r = 0; r < M; ++r)
                da[r] = static_cast<const Real*>(p.grad_z) + ((later * p.batch + first + row + r) * G + G - p.cell.seen) * H;
            multiply<Real, M, N>(acc, da, K, panels + group * N * V * K);
        }
        alignas(64) Vec<Real> fed[M][N];
        for (int r = 0; r < M; ++r)
            for (int j = 0; j < N; ++j) fed[r][j] = acc[r][j];
        if constexpr (HAS_USUAL<Real>) switch (usual) {
                case 1: return receive_rows<1>(t, row, M, group, N, &fed[0][0]);
                case 2: return receive_rows<2>(t, row, M, group, N, &fed[0][0]);
                case 3: return receive_rows<3>(t, row, M, group, N, &fed[0][0]);
                case 4: return receive_rows<4>(t, row, M, group, N, &fed[0][0]);
            }
        receive_rows<0>(t, row, M, group, N, &fed[0][0]);
    }

    // Ask for what `receive` will read and write of some units, which arrives during the product.
    REPRESENTER_INLINE void fetch(int64_t t, int64_t b, int64_t unit, int64_t count) const {
        const int64_t last = unit + count < H ? unit + count : H, before = p.reverse ? t + 1 : t - 1;
        for (int64_t j = unit; j < last; j += V) {
            __builtin_prefetch(static_cast<const Real*>(p.grad_output) + t * p.grad_time + b * p.grad_batch + j);
            __builtin_prefetch(saved(p.cells, t, b, j));
            if (before >= 0 && before < p.time) __builtin_prefetch(saved(p.cells, before, b, j));
            for (int64_t k = 0; k < G; ++k) {
                const int64_t at = ((t * p.batch + b) * G + k) * H + j;
                __builtin_prefetch(static_cast<const Real*>(p.gates) + at);
                __builtin_prefetch(static_cast<Real*>(p.grad_z) + at, 1);
            }
        }
    }

    template <int USUAL> const RepresenterCell& cell_of() const { return USUAL ? USUAL_CELLS[USUAL] : p.cell; }

    template <int USUAL>
    __attribute__((noinline)) void receive_rows(int64_t t, int64_t row, int m, int64_t group, int n, const Vec<Real>* fed) {
        for (int j = 0; j < n; ++j) {
            const int64_t unit = (group * n + j) * V;
            if (unit >= H) break;
            for (int r = 0; r < m; ++r) receive<USUAL>(t, row + r, unit, fed[r * n + j]);
        }
    }

    const Real* saved(const void* array, int64_t t, int64_t b, int64_t unit) const {
        return static_cast<const Real*>(array) + (t * p.batch + b) * H + unit;
    }
    bool is_real(int64_t t, int64_t b) const { return !p.lengths || t < p.lengths[b]; }

    // Compute the gradients of the emission and the cell of one step.
    template <int USUAL> REPRESENTER_INLINE void receive(int64_t t, int64_t row, int64_t unit, Vec<Real> fed) {
        const int count = H - unit < V ? int(H - unit) : V;
        const int64_t b = first + row, own = row * padded + unit;
        Vec<Real> e = fed + load<Real>(extra.at(own));
        if (!is_real(t, b)) {
            store<Real>(extra.at(own), e);
            for (int64_t k = 0; k < G; ++k)
                store(static_cast<Real*>(p.grad_z) + ((t * p.batch + b) * G + k) * H + unit, Vec<Real>{}, count);
            if (p.grad_fresh) store(static_cast<Real*>(p.grad_fresh) + (t * p.batch + b) * H + unit, Vec<Real>{}, count);
            if (p.grad_normed) store(static_cast<Real*>(p.grad_normed) + (t * p.batch + b) * H + unit, Vec<Real>{}, count);
            return;
        }
        e += load(static_cast<const Real*>(p.grad_output) + t * p.grad_time + b * p.grad_batch + unit, count);
        Vec<Real> g = load<Real>(carried.at(own)), held_e{}, held_g{};
        if (!USUAL && p.hold) {
            const Vec<Real> of_c = load(saved(p.hold, t, b, unit), count);
            const Vec<Real> of_h = load(saved(p.hold, t + p.time, b, unit), count);
            held_e = e * of_h, held_g = g * of_c;
            e -= held_e, g -= held_g;
        }
        store<Real>(extra.at(own), held_e);
        store<Real>(carried.at(own), held_g);
        if (!USUAL && p.norm) {  // psi' needs the normalized cell of the whole row
            store<Real>(e_row.at(own), e);
            store<Real>(g_row.at(own), g);
            return;
        }
        const void* cells = !USUAL && p.hold ? p.fresh : p.cells;
        g += through_emission<USUAL>(t, b, unit, count, e, load(saved(cells, t, b, unit), count));
        pass_on<USUAL>(t, row, unit, g);
    }

    // Write da of the output gate, and return the contribution of e to g.
    template <int USUAL>
    REPRESENTER_INLINE Vec<Real> through_emission(int64_t t, int64_t b, int64_t unit, int count, Vec<Real> e, Vec<Real> c) {
        const RepresenterCell& cell = cell_of<USUAL>();
        const Vec<Real> y = value<Real>(cell.output, c);
        Vec<Real> slope_of_c = slope<Real>(cell.output, c, y);
        if (cell.output_gate) {
            const int64_t at = ((t * p.batch + b) * G + G - 1) * H + unit;
            const Vec<Real> o = load(static_cast<const Real*>(p.gates) + at, count);
            store(static_cast<Real*>(p.grad_z) + at, e * y * o * (Real(1) - o), count);
            slope_of_c *= o;
        }
        return e * slope_of_c;
    }

    // Propagate the gradient g of the new cell to the pre-activations and the memory.
    template <int USUAL> REPRESENTER_INLINE void pass_on(int64_t t, int64_t row, int64_t unit, Vec<Real> g) {
        const RepresenterCell& cell = cell_of<USUAL>();
        const int count = H - unit < V ? int(H - unit) : V;
        const int64_t b = first + row, own = row * padded + unit;
        const Real* gates = static_cast<const Real*>(p.gates) + (t * p.batch + b) * G * H + unit;
        const Real* fixed = static_cast<const Real*>(p.gate_values);
        Real* da = static_cast<Real*>(p.grad_z) + (t * p.batch + b) * G * H + unit;
        if (!USUAL && p.grad_fresh) store(static_cast<Real*>(p.grad_fresh) + (t * p.batch + b) * H + unit, g, count);

        const Vec<Real> candidate = load(gates, count);
        Vec<Real> memory{}, f{}, i{};
        int at = 0;
        if (cell.input_gate == 0) i = load(gates + ++at * H, count);
        if (cell.input_gate == 2) i = load(fixed + unit, count);
        if (cell.forget_gate != 2) {
            const Vec<Real> before = cell.memory == 1 ? earlier(p.output, p.h0, t, b, unit, count)
                                                      : earlier(p.cells, p.c0, t, b, unit, count);
            memory = cell.memory == 2 ? expm1<Real>(before) : before;
            f = cell.forget_gate == 0 ? load(gates + (at + 1) * H, count) : load(fixed + H + unit, count);
        }
        if (cell.input_gate == 1) i = Real(1) - f;
        if (cell.input_gate == 0) store(da + at * H, g * candidate * i * (Real(1) - i), count);
        if (cell.forget_gate == 0) {
            const Vec<Real> gain = cell.input_gate == 1 ? memory - candidate : memory;
            store(da + (at + 1) * H, g * gain * f * (Real(1) - f), count);
        }
        store(da, g * i * slope<Real>(cell.candidate, candidate, candidate), count);
        if (cell.forget_gate == 2) return;
        Real* into = cell.memory == 1 ? extra.at(own) : carried.at(own);
        const Vec<Real> kept = cell.memory == 2 ? g * f * (memory + Real(1)) : g * f;
        store<Real>(into, load<Real>(into) + kept);
    }

    Vec<Real> earlier(const void* states, const void* initial, int64_t t, int64_t b, int64_t unit, int count) const {
        const int64_t before = p.reverse ? t + 1 : t - 1;
        const bool is_first = p.reverse ? before == p.time || !is_real(before, b) : before < 0;
        return load(is_first ? static_cast<const Real*>(initial) + b * H + unit : saved(states, before, b, unit), count);
    }

    // Gradient of the layer norm of one row, between the two halves of a step.
    void through_norm(int64_t t, int64_t row) {
        const int64_t b = first + row;
        if (!is_real(t, b)) return;
        const Real *gain = static_cast<const Real*>(p.norm), *offset = gain + H, *fresh = saved(p.fresh, t, b, 0);
        Real *e = e_row.at(row * padded), *g = g_row.at(row * padded);
        const Moments<Real> moments(fresh, H, p.epsilon);
        const Real mean = moments.mean, scale = moments.scale;
        Vec<Real> of_g{}, of_g_normed{};
        for (int64_t j = 0; j < H; j += V) {
            const int count = H - j < V ? int(H - j) : V;
            const Vec<Real> normed = (load(fresh + j, count) - mean) * scale;
            const Vec<Real> c = normed * load(gain + j, count) + load(offset + j, count);
            const Vec<Real> after = load(g + j, count) + through_emission<0>(t, b, j, count, load(e + j, count), c);
            if (p.grad_normed) store(static_cast<Real*>(p.grad_normed) + (t * p.batch + b) * H + j, after, count);
            const Vec<Real> scaled = after * load(gain + j, count);  // 0 past the end of the row, like the gain
            store(g + j, scaled, count);
            of_g += scaled, of_g_normed += scaled * normed;
        }
        const Real mean_g = sum<Real>(of_g) / Real(H), mean_g_normed = sum<Real>(of_g_normed) / Real(H);
        for (int64_t j = 0; j < H; j += V) {
            const int count = H - j < V ? int(H - j) : V;
            const Vec<Real> normed = (load(fresh + j, count) - mean) * scale;
            pass_on<0>(t, row, j, (load(g + j, count) - mean_g - normed * mean_g_normed) * scale);
        }
    }
};

template <class Real, int N> void backward_of(const RepresenterBackward& p) {
    constexpr int V = Lanes<Real>::n;
    const int64_t K = p.time > 1 ? p.cell.seen * p.units : 0, groups = (p.units + N * V - 1) / (N * V);
    Workspace<Real> panels(groups * N * V * K, false);
    if (K) pack_columns(static_cast<const Real*>(p.weight), K, p.units, N, panels.at(0), p.threads);
    use_large_pages(static_cast<Real*>(p.grad_z), p.time * p.batch * p.cell.gates * p.units);
    const int64_t threads = p.threads < p.batch ? p.threads : p.batch;
    parallel_for(threads, threads, [&](int64_t i) {
        Backward<Real>(p, share(p.batch, threads, i), share(p.batch, threads, i + 1)).template run<N>(panels.at(0));
    });
}

template <class Real> int backward(const RepresenterBackward& p) {
    switch (vectors_of<Real>(p.units)) {
        case 1: return backward_of<Real, 1>(p), 0;
        case 2: return backward_of<Real, 2>(p), 0;
        case 3: return backward_of<Real, 3>(p), 0;
        default: return backward_of<Real, 4>(p), 0;
    }
}

template <class Real> int rkm_few(const RepresenterFew& few) {
    const RepresenterForward& p = *static_cast<const RepresenterForward*>(few.call);
    const int64_t width = p.cell.gates * p.units, seen = p.cell.seen * p.units;
    const Workspace<Real> dz(p.time * p.batch * width, false), spare(2 * p.batch * p.units, false);
    RepresenterBackward b{};
    read_few(b, p, few, dz.at(0), spare.at(0));
    b.cell = p.cell, b.output = p.output, b.gates = p.gates, b.cells = p.cells, b.h0 = p.h0, b.gate_values = p.gate_values;
    backward<Real>(b);
    return gradients_of_few(p, few, dz.at(0), width, width - seen, seen, p.x_time, p.x_batch), OK;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
