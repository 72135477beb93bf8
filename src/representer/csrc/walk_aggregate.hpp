// walk_aggregate: y[v] = sum_{u -> v} s sigma(p[u] + q[v] + G a) tau(x[u] + B a) (F a), with gradient.
//
// A thread owns a few vectors of units and goes through all edges in their order, so that every run
// gives the same bits, nothing has to be sorted, and no message is ever stored.
// Both ends of an edge of a small graph lie in the cache.
#pragma once

#include "core.hpp"
#include "vec.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

enum WalkParts { SHIFTED = 1, FACTORED = 2, GATED = 4 };
constexpr int64_t RUN = 512;  // edges whose share in a weight's gradient is summed before it is added

// N vectors of units from `first` on, over all edges; only a band of one vector may be RAGGED, that
// is, have fewer units than lanes.
template <class Real, int N, int PARTS, bool RAGGED> class WalkBand {
    static constexpr int V = Lanes<Real>::n;
    typedef Vec<Real> Row[N];

  public:
    WalkBand(const RepresenterWalk& args, int64_t first)
        : p(args), first(first), count(RAGGED ? int(args.units - first) : V) {}

    void forward() const {
        for (int64_t e = 0; e < p.edges; ++e) {
            Row before, t, f, s;
            message(e, before, t, f, s);
            for (int j = 0; j < N; ++j) {
                if (PARTS & FACTORED) t[j] *= f[j];
                if (PARTS & GATED) t[j] *= s[j] * Real(p.scale);
            }
            add(p.output, target(e), t);
        }
    }

    void backward(Real* grad_edges) const {
        Workspace<Real> sums(3 * p.features * N * V);
        for (int64_t start = 0; start < p.edges; start += RUN) {
            const int64_t end = start + RUN < p.edges ? start + RUN : p.edges;
            for (int64_t e = start; e < end; ++e) step(e, sums.at(0), grad_edges);
            flush(p.grad_shift, sums.at(0));
            flush(p.grad_factor, sums.at(p.features * N * V));
            flush(p.grad_edge_gate, sums.at(2 * p.features * N * V));
        }
    }

  private:
    const RepresenterWalk& p;
    const int64_t first;
    const int count;  // of units in a vector

    REPRESENTER_INLINE Vec<Real> get(const Real* from) const { return RAGGED ? load(from, count) : load<Real>(from); }
    REPRESENTER_INLINE void put(Real* to, Vec<Real> v) const { RAGGED ? store(to, v, count) : store<Real>(to, v); }

    int64_t source(int64_t e) const { return p.edge_index[e]; }
    int64_t target(int64_t e) const { return p.edge_index[p.edges + e]; }
    const Real* attributes(int64_t e) const { return static_cast<const Real*>(p.edge_attr) + e * p.features; }

    void read(const void* of, int64_t row, Row& to) const {
        const Real* from = static_cast<const Real*>(of) + row * p.units + first;
        for (int j = 0; j < N; ++j) to[j] = get(from + j * V);
    }
    void add(void* of, int64_t row, const Row& terms) const {
        Real* to = static_cast<Real*>(of) + row * p.units + first;
        for (int j = 0; j < N; ++j) put(to + j * V, get(to + j * V) + terms[j]);
    }
    // to += W a of the band's units; weights are (K, H)
    void multiply_add(const void* weight, const Real* a, Row& to) const {
        const Real* row = static_cast<const Real*>(weight) + first;
        for (int64_t k = 0; k < p.features; ++k, row += p.units) {
            const Vec<Real> a_k = splat<Real>(a[k]);
            for (int j = 0; j < N; ++j) to[j] += a_k * get(row + j * V);
        }
    }

    // x[u] + B a, tau of it, F a, and the open gate.
    REPRESENTER_INLINE void message(int64_t e, Row& before, Row& t, Row& f, Row& s) const {
        const Real* a = attributes(e);
        read(p.x, source(e), before);
        if (PARTS & SHIFTED) multiply_add(p.shift, a, before);
        for (int j = 0; j < N; ++j) {
            t[j] = PARTS & SHIFTED ? value<Real>(p.activation, before[j]) : before[j];
            f[j] = Vec<Real>{};
        }
        if (PARTS & FACTORED) multiply_add(p.factor, a, f);
        if (PARTS & GATED) {
            Row q;
            read(p.source_gate, source(e), s);
            read(p.target_gate, target(e), q);
            for (int j = 0; j < N; ++j) s[j] += q[j];
            if (p.edge_gate) multiply_add(p.edge_gate, a, s);
            for (int j = 0; j < N; ++j) s[j] = sigmoid<Real>(s[j]);
        }
    }

    REPRESENTER_INLINE void step(int64_t e, Real* sums, Real* grad_edges) const {
        Row before, t, f, s, dy, dz, df, dg;
        message(e, before, t, f, s);
        read(p.grad, target(e), dy);
        for (int j = 0; j < N; ++j) {
            Vec<Real> dt = PARTS & FACTORED ? dy[j] * f[j] : dy[j];
            if (PARTS & GATED) {
                const Vec<Real> gate = s[j] * Real(p.scale);
                dg[j] = dt * t[j] * gate * (Real(1) - s[j]);
                dt *= gate;
                dy[j] *= gate;
            }
            df[j] = dy[j] * t[j];
            dz[j] = PARTS & SHIFTED ? dt * slope<Real>(p.activation, before[j], t[j]) : dt;
        }
        add(p.grad_x, source(e), dz);
        if (PARTS & GATED) {
            add(p.grad_source, source(e), dg);
            add(p.grad_target, target(e), dg);
        }
        const Real* a = attributes(e);
        for (int64_t k = 0; k < p.features; ++k) {
            const Vec<Real> a_k = splat<Real>(a[k]);
            Vec<Real> to_edge{};
            if (PARTS & SHIFTED) part(p.shift, dz, k, a_k, sums, 0, grad_edges, to_edge);
            if (PARTS & FACTORED) part(p.factor, df, k, a_k, sums, 1, grad_edges, to_edge);
            if ((PARTS & GATED) && p.edge_gate) part(p.edge_gate, dg, k, a_k, sums, 2, grad_edges, to_edge);
            if (grad_edges) grad_edges[e * p.features + k] += sum<Real>(to_edge);
        }
    }

    // What one weight gets from an edge, and the edge's feature k from it.
    REPRESENTER_INLINE void part(const void* weight, const Row& d, int64_t k, Vec<Real> a_k, Real* sums, int which,
                                 const Real* grad_edges, Vec<Real>& to_edge) const {
        Real* total = sums + (which * p.features + k) * N * V;
        const Real* row = static_cast<const Real*>(weight) + k * p.units + first;
        for (int j = 0; j < N; ++j) {
            store<Real>(total + j * V, load<Real>(total + j * V) + d[j] * a_k);
            if (grad_edges) to_edge += d[j] * get(row + j * V);
        }
    }

    void flush(void* gradient, Real* sums) const {
        if (!gradient) return;
        for (int64_t k = 0; k < p.features; ++k)
            for (int j = 0; j < N; ++j) {
                Real* to = static_cast<Real*>(gradient) + k * p.units + first + j * V;
                Real* from = sums + (k * N + j) * V;
                put(to, get(to) + load<Real>(from));
                store<Real>(from, Vec<Real>{});
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

// Every thread has its vectors of units, and writes its share of the edges' gradient by itself.
template <class Real, bool BACKWARD> int walk(const RepresenterWalk& p) {
    constexpr int V = Lanes<Real>::n;
    const int64_t vectors = (p.units + V - 1) / V, threads = p.threads < vectors ? p.threads : vectors;
    int failed = 0;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static, 1)
    for (int64_t i = 0; i < threads; ++i) {
        Real* own = static_cast<Real*>(p.grad_edges);
        if (own) own += i * p.edges * p.features;
        int64_t vector = share(vectors, threads, i);
        const int64_t end = share(vectors, threads, i + 1);
        try {
            const int64_t whole = end < p.units / V ? end : p.units / V;
            for (; vector + 4 <= whole; vector += 4) walk_group<Real, 4, BACKWARD>(p, vector * V, own);
            for (; vector + 2 <= whole; vector += 2) walk_group<Real, 2, BACKWARD>(p, vector * V, own);
            for (; vector < whole; ++vector) walk_group<Real, 1, BACKWARD>(p, vector * V, own);
            for (; vector < end; ++vector) walk_group<Real, 1, BACKWARD, true>(p, vector * V, own);
        } catch (const std::bad_alloc&) {
#pragma omp atomic write
            failed = 2;
        }
    }
    return failed;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
