// walk_rounds: the rounds of a Weisfeiler-Lehman network, with gradient.
//
//   P = h W' + c,   c_1 = p_1,  c_j = p_j o S_j,  S_j = gated sums of c_{j-1},   y += c_n
//   told = sums of sigma(inner + B a),   z = own + told U',   h' = sigma(z)
//
// The tape of a round holds P with columns (inner, own, p_1 ... p_n, gate source, gate target), with own
// overwritten by z if the slope needs it (for relu the label suffices), then S_2 ... S_n and told.
//
// If the graphs of a batch are contiguous, as in PyG, all rounds run on a few graphs before the next few, to
// keep the tape in the cache.
#pragma once

#include <algorithm>
#include <vector>

#include "core.hpp"
#include "graph_parts.hpp"
#include "panels.hpp"

namespace representer {
namespace REPRESENTER_ISA {

template <class Real, bool BACKWARD> int walk(const RepresenterWalk& p);  // compiled in walk_aggregate.cpp

template <class Real> class Rounds {
  public:
    explicit Rounds(const RepresenterRounds& args)
        : p(args), d(args.channels), H(args.units),
          R(2 * d + (args.steps + 1 + (args.edge_gate ? 2 : 0)) * H),
          parts(parts_of(args.edge_index, args.nodes, args.edges, args.threads > 1 ? args.nodes : NEAR)),
          most(std::max_element(parts.begin(), parts.end(), smaller)->nodes), states(most * std::max(d, H), false),
          slopes(most * std::max(d, H), false) {}

    void forward() {
        Panels<Real> relabeling(d, 2 * d), walks(d, R - 2 * d), neighbors(d, d);
        relabeling.pack_transposed(of(p.weight));
        walks.pack_transposed(of(p.weight) + 2 * d * d);
        neighbors.pack_transposed(of(p.neighbors));
        for (const Part& part : parts) {
            at = part;
            clear(output(), H);
            const Real* h = labels(-1);
            for (int64_t level = 0; level < p.depth; ++level) {
                if (level < p.depth - 1) project(h, relabeling, 0, products(level));
                if (level >= p.first) {
                    project(h, walks, 2 * d, products(level));
                    walk(level);
                }
                if (level < p.depth - 1) relabel(level, neighbors);
                if (p.keep) clear_unused(level);
                h = labels(level);
            }
        }
    }

    void backward() {
        Panels<Real> weight(R, d), neighbors(d, d);
        weight.pack(of(p.weight));
        neighbors.pack(of(p.neighbors));
        Workspace<Real> Z(most * R, false), dW(d * R), dU(d * d), dlabels(most * d, false);
        for (const Part& part : parts) {
            at = part;
            for (int64_t level = p.depth - 1; level >= 0; --level) {
                if (level < p.depth - 1) relabel_gradient(level, dlabels.at(0), neighbors, Z.at(0), dU.at(0));
                if (level >= p.first) walk_gradient(level, Z.at(0));
                const int64_t from = level < p.depth - 1 ? 0 : 2 * d, to = level >= p.first ? R : 2 * d;
                Real *dh = level ? dlabels.at(0) : of(p.grad_labels) + at.node * d, *total = of(p.grad_bias) + from;
                add_outer(
                    labels(level - 1), d, Z.at(from), R, to - from, at.nodes, p.threads, dW.at(from), R, total);
                weight.multiply_rows(
                    Z.at(from), R, from, to - from, at.nodes, p.threads, nullptr, 0, dh, d,
                    [=](int64_t node, int64_t nodes, int64_t column, int64_t columns) {
                        for (int64_t c = column; c < column + columns; c += Lanes<Real>::n) fetch(level - 1, node, nodes, c);
                    });
            }
        }
        transpose_matrix(dW.at(0), d, R, of(p.grad_weight));
        transpose_matrix(dU.at(0), d, d, of(p.grad_neighbors));
    }

  private:
    const RepresenterRounds& p;
    const int64_t d, H, R;
    const std::vector<Part> parts;
    const int64_t most;              // nodes of the largest part
    Workspace<Real> states, slopes;  // scratch buffers for the nodes of a part
    Part at{};

    static bool smaller(const Part& a, const Part& b) { return a.nodes < b.nodes; }
    static void nothing(int64_t, int64_t, int64_t, int64_t) {}
    static const Real* of(const void* x) { return static_cast<const Real*>(x); }
    static Real* of(void* x) { return static_cast<Real*>(x); }

    // Tape rows of the nodes of the current part.
    Real* kept(int64_t level, int64_t before, int64_t columns) const {
        const int64_t round = p.keep ? level : 0;
        return of(p.tape) + p.nodes * (round * (R + p.steps * H + d) + before) + at.node * columns;
    }
    Real* products(int64_t level) const { return kept(level, 0, R); }
    Real* sums(int64_t level, int64_t j) const { return kept(level, R + j * H, H); }  // S_{j+2}
    Real* told(int64_t level) const { return kept(level, R + p.steps * H, d); }
    Real* output() const { return of(p.output) + at.node * H; }
    Real* labels(int64_t level) const {  // labels after a round
        if (level < 0) return const_cast<Real*>(of(p.labels)) + at.node * d;
        return of(p.hidden) + ((p.keep ? level : 0) * p.nodes + at.node) * d;
    }
    int64_t walk_column(int64_t j) const { return 2 * d + j * H; }  // column of p_{j+1}
    int64_t gate_column() const { return walk_column(p.steps + 1); }

    template <class F> void each_node(F f) const {
        const int64_t parts = std::min<int64_t>(p.threads, at.nodes);
        parallel_for(parts, parts, [&](int64_t i) {
            for (int64_t v = share(at.nodes, parts, i); v < share(at.nodes, parts, i + 1); ++v) f(v);
        });
    }
    void clear(Real* x, int64_t columns) const { std::memset(x, 0, at.nodes * columns * sizeof(Real)); }
    // The last round does not relabel and the first rounds do not walk. Zero what they would write: the
    // operator must not return uninitialized memory.
    void clear_unused(int64_t level) const {
        const bool relabels = level < p.depth - 1, walks = level >= p.first;
        if (!relabels) clear(told(level), d);
        for (int64_t j = 0; j < p.steps && !walks; ++j) clear(sums(level, j), H);
        const int64_t from = relabels ? 2 * d : 0, to = walks ? 2 * d : R;
        Real* P = products(level);
        if (from < to) each_node([=](int64_t v) { std::memset(P + v * R + from, 0, (to - from) * sizeof(Real)); });
    }
    template <bool BACKWARD> static void run(const RepresenterWalk& call) {
        representer::REPRESENTER_ISA::walk<Real, BACKWARD>(call);
    }

    void project(const Real* h, const Panels<Real>& panels, int64_t column, Real* P) const {
        panels.multiply_rows(h, d, 0, d, at.nodes, p.threads, of(p.bias) + column, 0, P + column, R, nothing);
    }

    RepresenterWalk edges(const Real* x, int64_t x_row, int64_t units) const {
        RepresenterWalk call{};
        call.nodes = at.nodes, call.units = units, call.edges = at.edges, call.features = p.features;
        call.threads = p.threads, call.activation = IDENTITY;
        call.x = x, call.x_row = x_row;
        call.edge_index = p.edge_index + at.edge, call.targets = p.edges, call.first_node = at.node;
        call.edge_attr = of(p.edge_attr) + at.edge * p.features;
        call.grad_edges = p.grad_edges ? of(p.grad_edges) + at.edge * p.features : nullptr;
        call.scale = p.scale;
        return call;
    }
    // Prefetch one vector's part of the data that the gradient reads next, overlapping with the products.
    REPRESENTER_INLINE void fetch(int64_t level, int64_t node, int64_t nodes, int64_t c) const {
        if (level < 0) return;
        const int64_t line = 64 / sizeof(Real), from = c * R / d, to = std::min(R, (c + Lanes<Real>::n) * R / d);
        for (int64_t v = node; v < node + nodes; ++v) {
            const Real* row = products(level) + v * R;
            for (int64_t i = from; i < to; i += line) __builtin_prefetch(row + i);
            __builtin_prefetch(labels(level) + v * d + c);
            __builtin_prefetch(told(level) + v * d + c);
            if (p.steps && c < H) __builtin_prefetch(sums(level, p.steps - 1) + v * H + c);
        }
    }

    // Call that aggregates the messages of the neighbors.
    RepresenterWalk messages(int64_t level) const {
        RepresenterWalk call = edges(products(level), R, d);
        call.shift = p.shift, call.activation = p.activation;
        return call;
    }
    // Call that sums c_{j+1} over the neighbors.
    RepresenterWalk step(int64_t level, int64_t j) {
        const Real *P = products(level), *p_j = P + walk_column(j);
        RepresenterWalk call = edges(j ? states.at(0) : p_j, j ? H : R, H);
        if (j) {
            const Real* S = sums(level, j - 1);
            Real* c_j = states.at(0);
            each_node([=](int64_t v) {
                each_vector<Real>(H, [&](int64_t c, int n) {
                    store(c_j + v * H + c, load(p_j + v * R + c, n) * load(S + v * H + c, n), n);
                });
            });
        }
        call.factor = of(p.factor) + j * p.features * H;
        if (p.edge_gate) {
            call.edge_gate = p.edge_gate, call.gate_row = R;
            call.source_gate = P + gate_column(), call.target_gate = P + gate_column() + H;
        }
        return call;
    }

    void walk(int64_t level) {
        for (int64_t j = 0; j < p.steps; ++j) {
            clear(sums(level, j), H);
            RepresenterWalk call = step(level, j);
            call.output = sums(level, j), call.output_row = H;
            run<false>(call);
        }
        const Real *last = products(level) + walk_column(p.steps), *S = p.steps ? sums(level, p.steps - 1) : nullptr;
        Real* y = output();
        each_node([=](int64_t v) {
            each_vector<Real>(H, [&](int64_t c, int n) {
                Vec<Real> x = load(last + v * R + c, n);
                if (S) x *= load(S + v * H + c, n);
                store(y + v * H + c, load(y + v * H + c, n) + x, n);
            });
        });
    }

    void relabel(int64_t level, const Panels<Real>& neighbors) {
        Real *z = products(level) + d, *next = labels(level);
        const int64_t row = R, width = d;
        const int sigma = p.activation;
        clear(told(level), d);
        RepresenterWalk call = messages(level);
        call.output = told(level), call.output_row = d;
        run<false>(call);
        neighbors.multiply_rows(
            told(level), d, 0, d, at.nodes, p.threads, z, row, next, width,
            [=](int64_t node, int64_t nodes, int64_t column, int64_t columns) {
                for (int64_t v = node; v < node + nodes; ++v)
                    each_vector<Real>(columns, [&](int64_t c, int n) {
                        Real* label = next + v * width + column + c;
                        const Vec<Real> sum = load(label, n);
                        if (sigma != RELU) store(z + v * row + column + c, sum, n);
                        store(label, value<Real>(sigma, sum), n);
                    });
            });
    }

    // Backpropagate dh of the new labels to inner and own (written to Z) and to U.
    void relabel_gradient(int64_t level, const Real* dh, const Panels<Real>& neighbors, Real* Z, Real* dU) {
        const Real *z = products(level) + d, *y = labels(level);
        Real* dtold = states.at(0);
        each_node([=](int64_t v) {
            std::memset(Z + v * R, 0, d * sizeof(Real));
            each_vector<Real>(d, [&](int64_t c, int n) {
                const Vec<Real> label = load(y + v * d + c, n);
                const Vec<Real> before = p.activation == RELU ? label : load(z + v * R + c, n);
                store(Z + v * R + d + c, load(dh + v * d + c, n) * slope<Real>(p.activation, before, label), n);
            });
        });
        neighbors.multiply_rows(
            Z + d, R, 0, d, at.nodes, p.threads, nullptr, 0, dtold, d, nothing);
        add_outer(told(level), d, Z + d, R, d, at.nodes, p.threads, dU, d, static_cast<Real*>(nullptr));
        RepresenterWalk call = messages(level);
        call.grad = dtold, call.grad_row = d;
        call.grad_x = Z, call.grad_x_row = R;
        call.grad_shift = p.grad_shift;
        run<true>(call);
    }

    // Write the gradients of p_1 ... p_n and of both gate halves to Z.
    void walk_gradient(int64_t level, Real* Z) {
        const Real *P = products(level), *dc = of(p.grad_output) + at.node * H;
        const int64_t gates = R - gate_column();
        Workspace<Real> before(p.steps > 1 ? at.nodes * H : 0, false);
        each_node([=](int64_t v) {
            std::memset(Z + v * R + gate_column(), 0, gates * sizeof(Real));
            if (p.steps) std::memset(Z + v * R + walk_column(0), 0, H * sizeof(Real));
            if (!p.steps) std::memcpy(Z + v * R + walk_column(0), dc + v * H, H * sizeof(Real));
        });
        for (int64_t j = p.steps - 1; j >= 0; --j) {
            const Real *S = sums(level, j), *p_j = P + walk_column(j + 1);
            Real *dp_j = Z + walk_column(j + 1), *dS = slopes.at(0);
            each_node([=](int64_t v) {
                each_vector<Real>(H, [&](int64_t c, int n) {
                    const Vec<Real> to = load(dc + v * H + c, n);
                    store(dp_j + v * R + c, to * load(S + v * H + c, n), n);
                    store(dS + v * H + c, to * load(p_j + v * R + c, n), n);
                });
            });
            if (j) clear(before.at(0), H);
            RepresenterWalk call = step(level, j);
            call.grad = dS, call.grad_row = H;
            call.grad_x = j ? before.at(0) : Z + walk_column(0), call.grad_x_row = j ? H : R;
            call.grad_factor = of(p.grad_factor) + j * p.features * H;
            if (p.edge_gate) {
                call.grad_source = Z + gate_column(), call.grad_target = Z + gate_column() + H;
                call.grad_gate_row = R, call.grad_edge_gate = p.grad_edge_gate;
            }
            run<true>(call);
            dc = before.at(0);
        }
    }
};

template <class Real, bool BACKWARD> int rounds(const RepresenterRounds& p) {
    Rounds<Real> of(p);
    if (BACKWARD)
        of.backward();
    else
        of.forward();
    return 0;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
