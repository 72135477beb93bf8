// walk_aggregate: y[v] = sum_{u -> v} s sigma(p[u] + q[v] + G a) tau(x[u] + B a) (F a), with gradient.
//
// Each thread owns a few vectors of units and visits all edges in order: the result is deterministic,
// the edges need no sorting, and messages are never materialized. In small graphs both endpoints of
// an edge are in the cache.
#pragma once

#include "core.hpp"
#include "parallel.hpp"
#include "vec.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

enum WalkParts { SHIFTED = 1, FACTORED = 2, GATED = 4 };
constexpr int RUN = 12;  // edges per block of products with the weights
constexpr int ABREAST = 3;

// The part of a band that does not depend on PARTS, compiled once: N vectors of units starting at `first`.
// Only a band of one vector may be RAGGED, that is, have fewer units than lanes. Full vectors have separate code:
// they must round like wider bands, so that the result does not depend on the number of threads.
template <class Real, int N, bool RAGGED> class WalkVectors {
  protected:
    static constexpr int V = Lanes<Real>::n;
    typedef Vec<Real> Row[N];
    typedef Vec<Real> Rows[RUN][N];  // one row per edge of a block

    const RepresenterWalk& p;
    const int64_t first;
    const int count;  // units per vector

    WalkVectors(const RepresenterWalk& args, int64_t first)
        : p(args), first(first), count(RAGGED ? int(args.units - first) : V) {}

    REPRESENTER_INLINE Vec<Real> get(const Real* from) const { return RAGGED ? load(from, count) : load<Real>(from); }
    REPRESENTER_INLINE void put(Real* to, Vec<Real> v) const { RAGGED ? store(to, v, count) : store<Real>(to, v); }

    int run(int64_t start) const { return p.edges - start < RUN ? int(p.edges - start) : RUN; }
    int64_t source(int64_t e) const { return p.edge_index[e] - p.first_node; }
    int64_t target(int64_t e) const { return p.edge_index[p.targets + e] - p.first_node; }
    const Real* attributes(int64_t e) const { return static_cast<const Real*>(p.edge_attr) + e * p.features; }

    REPRESENTER_INLINE void read(const void* of, int64_t node, int64_t row, Row& to) const {
        const Real* from = static_cast<const Real*>(of) + node * row + first;
        for (int j = 0; j < N; ++j) to[j] = get(from + j * V);
    }
    REPRESENTER_INLINE void add(void* of, int64_t node, int64_t row, const Row& terms) const {
        Real* to = static_cast<Real*>(of) + node * row + first;
        for (int j = 0; j < N; ++j) put(to + j * V, get(to + j * V) + terms[j]);
    }

    // Compute B a for the edges of a block.
    __attribute__((noinline)) void multiply(const void* weight, int64_t start, int edges, Rows& to) const {
        int i = 0;
        for (; i + ABREAST <= edges; i += ABREAST) multiply_some<ABREAST>(weight, start + i, to + i);
        for (; i < edges; ++i) multiply_some<1>(weight, start + i, to + i);
    }
    template <int A> REPRESENTER_INLINE void multiply_some(const void* weight, int64_t e, Row* to) const {
        Vec<Real> total[A][N] = {};
        const Real *row = static_cast<const Real*>(weight) + first, *a = attributes(e);
        for (int64_t k = 0; weight && k < p.features; ++k, row += p.units)
            for (int j = 0; j < N; ++j) {
                const Vec<Real> w = get(row + j * V);
                for (int i = 0; i < A; ++i) total[i][j] += w * a[i * p.features + k];
            }
        for (int i = 0; i < A; ++i)
            for (int j = 0; j < N; ++j) to[i][j] = total[i][j];
    }

    // Apply the activation to a row, or multiply a gradient by its slope; the two common cases are inlined.
    REPRESENTER_INLINE void activate(Row& t) const {
        if (p.activation == IDENTITY) return;
        if (p.activation != RELU) return activate_any(t);
        for (int j = 0; j < N; ++j) t[j] = value<Real>(RELU, t[j]);
    }
    REPRESENTER_INLINE void multiply_by_slopes(const Row& before, const Row& t, Row& gradient) const {
        if (p.activation == IDENTITY) return;
        if (p.activation != RELU) return multiply_by_any_slopes(before, t, gradient);
        for (int j = 0; j < N; ++j) gradient[j] *= slope<Real>(RELU, before[j], t[j]);
    }
    __attribute__((noinline)) void activate_any(Row& t) const {
        for (int j = 0; j < N; ++j) t[j] = value<Real>(p.activation, t[j]);
    }
    __attribute__((noinline)) void multiply_by_any_slopes(const Row& before, const Row& t, Row& gradient) const {
        for (int j = 0; j < N; ++j) gradient[j] *= slope<Real>(p.activation, before[j], t[j]);
    }

    // Accumulate the gradients of a weight and of the edge features over a block of edges.
    __attribute__((noinline)) void gather(
        int64_t start, int edges, const Rows& d, const void* weight, Real* sums, Real* grad_edges) const {
        int64_t k = 0;
        for (; k + ABREAST <= p.features; k += ABREAST) gather_some<ABREAST>(start, edges, d, k, sums);
        for (; k < p.features; ++k) gather_some<1>(start, edges, d, k, sums);
        for (int i = 0; grad_edges && i < edges; ++i)
            for (k = 0; k < p.features; ++k) {
                const Real* row = static_cast<const Real*>(weight) + k * p.units + first;
                Vec<Real> to_edge{};
                for (int j = 0; j < N; ++j) to_edge += d[i][j] * get(row + j * V);
                grad_edges[(start + i) * p.features + k] += sum<Real>(to_edge);
            }
    }
    template <int A>
    REPRESENTER_INLINE void gather_some(int64_t start, int edges, const Rows& d, int64_t k, Real* sums) const {
        Vec<Real> total[A][N];
        for (int i = 0; i < A; ++i)
            for (int j = 0; j < N; ++j) total[i][j] = load<Real>(sums + ((k + i) * N + j) * V);
        const Real* a = attributes(start) + k;
        for (int e = 0; e < edges; ++e, a += p.features)
            for (int j = 0; j < N; ++j)
                for (int i = 0; i < A; ++i) total[i][j] += d[e][j] * a[i];
        for (int i = 0; i < A; ++i)
            for (int j = 0; j < N; ++j) store<Real>(sums + ((k + i) * N + j) * V, total[i][j]);
    }

    __attribute__((noinline)) void flush(void* gradient, const Real* sums) const {
        for (int64_t k = 0; gradient && k < p.features; ++k)
            for (int j = 0; j < N; ++j) {
                Real* to = static_cast<Real*>(gradient) + k * p.units + first + j * V;
                put(to, get(to) + load<Real>(sums + (k * N + j) * V));
            }
    }
};

// Messages of one band along all edges.
template <class Real, int N, int PARTS, bool RAGGED> class WalkBand : WalkVectors<Real, N, RAGGED> {
    typedef WalkVectors<Real, N, RAGGED> Own;
    typedef typename Own::Row Row;
    typedef typename Own::Rows Rows;
    using Own::activate, Own::add, Own::first, Own::flush, Own::gather, Own::multiply, Own::multiply_by_slopes, Own::p,
        Own::read, Own::run, Own::source, Own::target, Own::V;

  public:
    WalkBand(const RepresenterWalk& args, int64_t first) : Own(args, first) {}

    void forward() const {
        Rows b, f, g;
        for (int64_t start = 0; start < p.edges; start += RUN) {
            const int edges = run(start);
            weigh(start, edges, b, f, g);
            for (int i = 0; i < edges; ++i) {
                Row before, t, s;
                message(start + i, b[i], g[i], before, t, s);
                for (int j = 0; j < N; ++j) {
                    if (PARTS & FACTORED) t[j] *= f[i][j];
                    if (PARTS & GATED) t[j] *= s[j] * Real(p.scale);
                }
                add(p.output, target(start + i), p.output_row, t);
            }
        }
    }

    void backward(Real* grad_edges) const {
        Workspace<Real> sums(3 * p.features * N * V);
        Real *shift = sums.at(0), *factor = sums.at(p.features * N * V), *gate = sums.at(2 * p.features * N * V);
        Rows b, f, g;  // products with the weights, later overwritten by their gradients
        for (int64_t start = 0; start < p.edges; start += RUN) {
            const int edges = run(start);
            weigh(start, edges, b, f, g);
            for (int i = 0; i < edges; ++i) step(start + i, b[i], f[i], g[i]);
            if (PARTS & SHIFTED) gather(start, edges, b, p.shift, shift, grad_edges);
            if (PARTS & FACTORED) gather(start, edges, f, p.factor, factor, grad_edges);
            if ((PARTS & GATED) && p.edge_gate) gather(start, edges, g, p.edge_gate, gate, grad_edges);
        }
        flush(p.grad_shift, shift);
        flush(p.grad_factor, factor);
        flush(p.grad_edge_gate, gate);
    }

  private:
    // Compute B a, F a and G a for the edges of a block.
    void weigh(int64_t start, int edges, Rows& b, Rows& f, Rows& g) const {
        if (PARTS & SHIFTED) multiply(p.shift, start, edges, b);
        if (PARTS & FACTORED) multiply(p.factor, start, edges, f);
        if (PARTS & GATED) multiply(p.edge_gate, start, edges, g);
    }

    // Compute x[u] + B a, its activation, and the gate.
    REPRESENTER_INLINE void message(int64_t e, const Row& b, const Row& g, Row& before, Row& t, Row& s) const {
        read(p.x, source(e), p.x_row, before);
        for (int j = 0; j < N; ++j) {
            if (PARTS & SHIFTED) before[j] += b[j];
            t[j] = before[j];
        }
        if (PARTS & SHIFTED) activate(t);
        if (PARTS & GATED) {
            Row q;
            read(p.source_gate, source(e), p.gate_row, s);
            read(p.target_gate, target(e), p.gate_row, q);
            for (int j = 0; j < N; ++j) s[j] = sigmoid<Real>(s[j] + q[j] + g[j]);
        }
    }

    // Add to the gradients of the nodes, and overwrite the products with their gradients.
    REPRESENTER_INLINE void step(int64_t e, Row& b, Row& f, Row& g) const {
        Row before, t, s, dy, dz;
        message(e, b, g, before, t, s);
        read(p.grad, target(e), p.grad_row, dy);
        for (int j = 0; j < N; ++j) {
            Vec<Real> dt = PARTS & FACTORED ? dy[j] * f[j] : dy[j];
            if (PARTS & GATED) {
                const Vec<Real> gate = s[j] * Real(p.scale);
                g[j] = dt * t[j] * gate * (Real(1) - s[j]);
                dt *= gate;
                dy[j] *= gate;
            }
            if (PARTS & FACTORED) f[j] = dy[j] * t[j];
            dz[j] = dt;
        }
        if (PARTS & SHIFTED) {
            multiply_by_slopes(before, t, dz);
            for (int j = 0; j < N; ++j) b[j] = dz[j];
        }
        add(p.grad_x, source(e), p.grad_x_row, dz);
        if (PARTS & GATED) {
            add(p.grad_source, source(e), p.grad_gate_row, g);
            add(p.grad_target, target(e), p.grad_gate_row, g);
        }
    }
};

template <class Real, int N, bool BACKWARD, bool RAGGED, int PARTS>
void walk_band(const RepresenterWalk& p, int64_t first, Real* grad_edges) {
    const WalkBand<Real, N, PARTS, RAGGED> band(p, first);
    if (BACKWARD)
        band.backward(grad_edges);
    else
        band.forward();
}

template <class Real, int N, bool BACKWARD, bool RAGGED = false>
void walk_group(const RepresenterWalk& p, int64_t first, Real* grad_edges) {
    switch ((p.shift ? SHIFTED : 0) | (p.factor ? FACTORED : 0) | (p.source_gate ? GATED : 0)) {
        case 0: return walk_band<Real, N, BACKWARD, RAGGED, 0>(p, first, grad_edges);
        case 1: return walk_band<Real, N, BACKWARD, RAGGED, 1>(p, first, grad_edges);
        case 2: return walk_band<Real, N, BACKWARD, RAGGED, 2>(p, first, grad_edges);
        case 3: return walk_band<Real, N, BACKWARD, RAGGED, 3>(p, first, grad_edges);
        case 4: return walk_band<Real, N, BACKWARD, RAGGED, 4>(p, first, grad_edges);
        case 5: return walk_band<Real, N, BACKWARD, RAGGED, 5>(p, first, grad_edges);
        case 6: return walk_band<Real, N, BACKWARD, RAGGED, 6>(p, first, grad_edges);
        default: return walk_band<Real, N, BACKWARD, RAGGED, 7>(p, first, grad_edges);
    }
}

// Threads split the units; each writes its own contribution to the gradient of the edges.
template <class Real, bool BACKWARD> int walk(const RepresenterWalk& p) {
    constexpr int V = Lanes<Real>::n;
    const int64_t vectors = (p.units + V - 1) / V, threads = p.threads < vectors ? p.threads : vectors;
    parallel_for(threads, threads, [&](int64_t i) {
        Real* own = static_cast<Real*>(p.grad_edges);
        if (own) own += i * p.edges * p.features;
        int64_t vector = share(vectors, threads, i);
        const int64_t end = share(vectors, threads, i + 1);
        const int64_t whole = end < p.units / V ? end : p.units / V;
        if constexpr (sizeof(Real) == 4) {  // float64 uses the generic code, to save compile time
            for (; vector + 4 <= whole; vector += 4) walk_group<Real, 4, BACKWARD>(p, vector * V, own);
            for (; vector + 2 <= whole; vector += 2) walk_group<Real, 2, BACKWARD>(p, vector * V, own);
        }
        for (; vector < whole; ++vector) walk_group<Real, 1, BACKWARD>(p, vector * V, own);
        for (; vector < end; ++vector) walk_group<Real, 1, BACKWARD, true>(p, vector * V, own);
    });
    return 0;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
