// tree_scan: c_j[v] = sum_u lam c_j[u] + (sum_u a_j c_{j-1}[u]) p_j[v] over the children u of v, with gradient.
//
// Nodes are visited by depth, deepest first, and in the reverse order for the gradient, so each node reads finished
// children. Threads divide the vectors of units and visit all nodes; with a gate on the child's state, which needs a
// product of all units, they divide the nodes of each depth.
#pragma once

#include <algorithm>
#include <vector>

#include "core.hpp"
#include "panels.hpp"
#include "status.hpp"

namespace representer {
namespace REPRESENTER_ISA {

// The order of the nodes of trees, and the children of each.
struct TreeOrder {
    std::vector<int64_t> above, nodes, first, edges;  // parent or -1; by depth; per position, its first slot; per slot, its edge
    std::vector<int64_t> levels;                      // first position of each depth, deepest first, and the end
    bool valid = true;                                // no node has two parents or is its own ancestor

    TreeOrder(const int64_t* index, int64_t N, int64_t E) : above(N, -1), nodes(N), first(N + 1, 0), edges(E) {
        std::vector<int64_t> depth(N, UNKNOWN), path, places(N), count;
        for (int64_t e = 0; e < E; ++e) {
            valid = valid && above[index[e]] < 0;
            above[index[e]] = index[E + e];
        }
        int64_t deepest = -1;
        for (int64_t v = 0; v < N && valid; ++v) {
            int64_t u = v;
            for (path.clear(); u >= 0 && depth[u] == UNKNOWN; u = above[u]) {
                depth[u] = PENDING;
                path.push_back(u);
            }
            valid = u < 0 || depth[u] != PENDING;
            int64_t d = u < 0 ? 0 : depth[u] + 1;
            for (; !path.empty(); path.pop_back()) depth[path.back()] = d++;
            deepest = std::max(deepest, d - 1);
        }
        if (!valid) return;
        levels.assign(deepest + 2, 0);
        for (int64_t v = 0; v < N; ++v) ++levels[deepest - depth[v] + 1];
        for (int64_t l = 0; l <= deepest; ++l) levels[l + 1] += levels[l];
        count.assign(levels.begin(), levels.end());
        for (int64_t v = 0; v < N; ++v) nodes[places[v] = count[deepest - depth[v]]++] = v;
        for (int64_t e = 0; e < E; ++e) ++first[places[index[E + e]] + 1];
        for (int64_t i = 0; i < N; ++i) first[i + 1] += first[i];
        count.assign(first.begin(), first.end());
        for (int64_t e = 0; e < E; ++e) edges[count[places[index[E + e]]]++] = e;
    }

  private:
    static constexpr int64_t UNKNOWN = -1, PENDING = -2;
};

template <class Real> class Trees {
    static constexpr int V = Lanes<Real>::n;

  public:
    Trees(const RepresenterTrees& args, const TreeOrder& order)
        : p(args), order(order), n(args.order), H(args.units), row(args.order * args.units), most(widest()),
          hidden(p.state_gate ? most * H : 0, false), summed(p.state_gate ? most * H : 0, false) {}

    void forward() {
        if (!p.state_gate) return each_band([&](int64_t from, int64_t to) {
            for (int64_t i = 0; i < p.nodes; ++i) step(i, from, to, nullptr);
        });
        Panels<Real> weight(H, H);
        weight.pack_transposed(in(p.state_gate));
        for (int64_t level = 0; level + 1 < int64_t(order.levels.size()); ++level) {
            const int64_t first = order.first[order.levels[level]], slots = order.first[order.levels[level + 1]] - first;
            each(slots, [=](int64_t s) {
                const Real* c = out(p.states) + child(order.edges[first + s]) * row + (n - 1) * H;
                each_vector<Real>(H, [&](int64_t k, int count) {
                    store(hidden.at(s * H + k), value<Real>(p.activation, load(c + k, count)), count);
                });
            });
            weight.multiply_rows(hidden.at(0), H, 0, H, slots, p.threads, nullptr, 0, summed.at(0), H, nothing);
            each_node(level, [=](int64_t i) { step(i, 0, H, summed.at((order.first[i] - first) * H)); });
        }
    }

    void backward() {
        for (int64_t v = 0; v < p.nodes; ++v)
            if (order.above[v] < 0) std::memcpy(out(p.grad_states) + v * row, in(p.grad) + v * row, row * sizeof(Real));
        if (!p.state_gate) return each_band([&](int64_t from, int64_t to) {
            for (int64_t i = p.nodes - 1; i >= 0; --i) step_gradient(i, from, to, nullptr);
        });
        Panels<Real> weight(H, H);
        weight.pack(in(p.state_gate));
        for (int64_t level = int64_t(order.levels.size()) - 2; level >= 0; --level) {
            const int64_t first = order.first[order.levels[level]], slots = order.first[order.levels[level + 1]] - first;
            each_node(level, [=](int64_t i) { step_gradient(i, 0, H, summed.at((order.first[i] - first) * H)); });
            weight.multiply_rows(summed.at(0), H, 0, H, slots, p.threads, nullptr, 0, hidden.at(0), H, nothing);
            each(slots, [=](int64_t s) {
                const int64_t last = child(order.edges[first + s]) * row + (n - 1) * H;
                const Real *c = out(p.states) + last, *dh = hidden.at(s * H);
                Real* dc = out(p.grad_states) + last;
                each_vector<Real>(H, [&](int64_t k, int count) {
                    const Vec<Real> z = load(c + k, count), t = slope<Real>(p.activation, z, value<Real>(p.activation, z));
                    store(dc + k, load(dc + k, count) + t * load(dh + k, count), count);
                });
            });
        }
    }

  private:
    const RepresenterTrees& p;
    const TreeOrder& order;
    const int64_t n, H, row;  // row: entries of a node's states
    const int64_t most;       // edges into the nodes of one depth
    Workspace<Real> hidden, summed;

    static const Real* in(const void* array) { return static_cast<const Real*>(array); }
    static Real* out(void* array) { return static_cast<Real*>(array); }
    static void nothing(int64_t, int64_t, int64_t, int64_t) {}
    int64_t child(int64_t edge) const { return p.edge_index[edge]; }

    int64_t widest() const {
        int64_t found = 0;
        for (size_t l = 0; l + 1 < order.levels.size(); ++l)
            found = std::max(found, order.first[order.levels[l + 1]] - order.first[order.levels[l]]);
        return found;
    }
    template <class F> void each(int64_t count, F f) const {
        const int64_t shares = std::min<int64_t>(p.threads, count);
        parallel_for(shares, shares, [&](int64_t i) {
            for (int64_t k = share(count, shares, i); k < share(count, shares, i + 1); ++k) f(k);
        });
    }
    template <class F> void each_node(int64_t level, F f) const {
        const int64_t start = order.levels[level];
        each(order.levels[level + 1] - start, [=](int64_t i) { f(start + i); });
    }
    // Call f(from, to) for the units of each thread, a number of whole vectors but for the last.
    template <class F> void each_band(F f) const {
        const int64_t vectors = (H + V - 1) / V, shares = std::min<int64_t>(p.threads, vectors);
        parallel_for(shares, shares, [&](int64_t i) {
            f(share(vectors, shares, i) * V, std::min(H, share(vectors, shares, i + 1) * V));
        });
    }

    REPRESENTER_INLINE Vec<Real> decay(int64_t edge, int64_t k, int count) const {
        if (!p.decay) return load(out(p.gates) + edge * H + k, count) * Real(p.scale);
        return p.scalar ? splat<Real>(*in(p.decay)) : load(in(p.decay) + k, count);
    }
    const Real* factor(int64_t edge, int64_t j) const { return in(p.factor) + (edge * (n - 1) + j - 1) * H; }

    // Compute units [from, to) of the node at a position; `seen` are the gates' terms of its children's states.
    void step(int64_t i, int64_t from, int64_t to, const Real* seen) const {
        const int64_t v = order.nodes[i], begin = order.first[i], end = order.first[i + 1];
        for (int64_t k = from; k < to; k += V) {
            const int count = int(std::min<int64_t>(V, to - k));
            for (int64_t s = begin; s < end && !p.decay; ++s) {
                Vec<Real> z = load(in(p.target_gate) + v * p.gate_row + k, count);
                if (p.source_gate) z += load(in(p.source_gate) + child(order.edges[s]) * p.gate_row + k, count);
                if (seen) z += load(seen + (s - begin) * H + k, count);
                store(out(p.gates) + order.edges[s] * H + k, sigmoid<Real>(z), count);
            }
            const Real* q = in(p.products) + v * p.product_row + k;
            for (int64_t j = 0; j < n; ++j, q += H) {
                Vec<Real> kept{}, shorter{};
                for (int64_t s = begin; s < end; ++s) {
                    const int64_t e = order.edges[s];
                    const Real* c = out(p.states) + child(e) * row + j * H + k;
                    kept += decay(e, k, count) * load(c, count);
                    if (!j) continue;
                    const Vec<Real> below = load(c - H, count);
                    shorter += p.factor ? below * load(factor(e, j) + k, count) : below;
                }
                const Vec<Real> product = load(q, count);
                store(out(p.states) + v * row + j * H + k, kept + (j ? shorter * product : product), count);
            }
        }
    }

    // Compute the gradients of the node at a position, whose own is complete, and complete those of its children, but for
    // the gate on their states; `seen` receives the gradients of the arguments of the gates.
    void step_gradient(int64_t i, int64_t from, int64_t to, Real* seen) const {
        const int64_t v = order.nodes[i], begin = order.first[i], end = order.first[i + 1];
        for (int64_t k = from; k < to; k += V) {
            const int count = int(std::min<int64_t>(V, to - k));
            const Real *dc = out(p.grad_states) + v * row + k, *q = in(p.products) + v * p.product_row + k;
            Real* dq = out(p.grad_products) + v * row + k;
            store(dq, load(dc, count), count);
            for (int64_t j = 1; j < n; ++j) {
                Vec<Real> shorter{};
                for (int64_t s = begin; s < end; ++s) {
                    const int64_t e = order.edges[s];
                    const Vec<Real> below = load(out(p.states) + child(e) * row + (j - 1) * H + k, count);
                    shorter += p.factor ? below * load(factor(e, j) + k, count) : below;
                }
                store(dq + j * H, load(dc + j * H, count) * shorter, count);
            }
            for (int64_t s = begin; s < end; ++s) {
                const int64_t e = order.edges[s], at = child(e) * row + k;
                const Vec<Real> lam = decay(e, k, count);
                Vec<Real> dlam{};
                for (int64_t j = 0; j < n; ++j) {
                    const Vec<Real> d = load(dc + j * H, count), c = load(out(p.states) + at + j * H, count);
                    Vec<Real> total = load(in(p.grad) + at + j * H, count) + lam * d;
                    dlam += c * d;
                    if (j + 1 < n) {
                        Vec<Real> longer = load(dc + (j + 1) * H, count) * load(q + (j + 1) * H, count);
                        if (p.factor) {
                            store(out(p.grad_factor) + (e * (n - 1) + j) * H + k, c * longer, count);
                            longer *= load(factor(e, j + 1) + k, count);
                        }
                        total += longer;
                    }
                    store(out(p.grad_states) + at + j * H, total, count);
                }
                if (p.decay) {
                    add(out(p.grad_decay) + k, dlam, count);
                    continue;
                }
                const Vec<Real> gate = load(out(p.gates) + e * H + k, count), dz = dlam * Real(p.scale) * gate * (Real(1) - gate);
                store(out(p.grad_z) + e * H + k, dz, count);
                add(out(p.grad_target) + v * H + k, dz, count);
                if (p.source_gate) store(out(p.grad_source) + child(e) * H + k, dz, count);
                if (seen) store(seen + (s - begin) * H + k, dz, count);
            }
        }
    }
    static REPRESENTER_INLINE void add(Real* to, Vec<Real> terms, int count) { store(to, load(to, count) + terms, count); }
};

template <class Real, bool BACKWARD> int trees(const RepresenterTrees& p) {
    const TreeOrder order(p.edge_index, p.nodes, p.edges);
    if (!order.valid) return UNSUPPORTED;
    Trees<Real> of(p, order);
    if (BACKWARD)
        of.backward();
    else
        of.forward();
    return 0;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
