// What every entry point refuses before it computes anything: counts below zero or beyond every memory, unknown
// options, and absent arrays. That an array is as long as the counts say, and that indices are in it, is the caller's
// part. Arrays without entries may be null.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <new>

#include "core.hpp"

namespace representer {
namespace REPRESENTER_ISA {

// Return whether no count of an array is negative; throw if all of them together are too many.
inline bool fit(std::initializer_list<int64_t> counts) {
    int64_t product = 64;  // a vector of the widest type, to which scratch buffers are padded
    for (const int64_t count : counts) {
        if (count < 0) return false;
        if (count && __builtin_mul_overflow(product, count, &product)) throw std::bad_alloc();
    }
    return true;
}
// Return whether arrays are there, or not needed since a count is 0.
inline bool has(std::initializer_list<int64_t> counts, std::initializer_list<const void*> arrays) {
    for (const int64_t count : counts)
        if (!count) return true;
    for (const void* array : arrays)
        if (!array) return false;
    return true;
}
inline bool is_one_of(int64_t option, int64_t count) { return option >= 0 && option < count; }
inline bool is_backward(const char* operation) { return std::strstr(operation, "backward"); }
constexpr int NONLINEARITIES = 9, GREENS = 4;

inline bool is_known(const RepresenterCell& cell) {
    return is_one_of(cell.input_gate, 3) && is_one_of(cell.forget_gate, 3) && is_one_of(cell.output_gate, 2) &&
           is_one_of(cell.candidate, NONLINEARITIES) && is_one_of(cell.output, NONLINEARITIES) && is_one_of(cell.memory, 3) &&
           cell.gates == 1 + (cell.input_gate == 0) + (cell.forget_gate == 0) + cell.output_gate && is_one_of(cell.seen, cell.gates + 1);
}
inline bool is_static(const RepresenterCell& cell) { return cell.input_gate == 2 || cell.forget_gate == 1; }
inline bool is_known(const RepresenterChain& chain) {
    return chain.order > 0 && is_one_of(chain.combine, 3) && is_one_of(chain.normalized, 3) && is_one_of(chain.sums, 2) &&
           is_one_of(chain.decay, 4) && is_one_of(chain.highway, 2) && is_one_of(chain.activation, NONLINEARITIES) &&
           chain.products == chain.order + int64_t(chain.decay >= 2) + chain.highway &&
           chain.states == chain.order * int64_t(chain.combine == 2 || chain.normalized == 2 ? 2 : 1);
}

inline bool is_valid(const RepresenterForward& p, const char*) {
    const RepresenterCell& cell = p.cell;
    return is_known(cell) && fit({p.time, p.batch, p.units, cell.gates}) && fit({p.units, cell.gates, p.features}) &&
           fit({p.units, cell.gates, p.units}) && is_one_of(p.biased, cell.gates + 1) && has({p.time, p.batch, p.units}, {p.x, p.output}) &&
           has({p.batch, p.units}, {p.h0, p.c0, p.h, p.c}) && has({p.biased, p.units}, {p.bias}) &&
           has({cell.seen, p.units}, {p.weight}) && has({is_static(cell), p.units}, {p.gate_values});
}
inline bool is_valid(const RepresenterBackward& p, const char*) {
    const RepresenterCell& cell = p.cell;
    return is_known(cell) && fit({p.time, p.batch, p.units, cell.gates}) && fit({p.units, cell.gates, p.units}) &&
           has({p.time, p.batch, p.units}, {p.grad_output, p.output, p.gates, p.cells, p.grad_z}) &&
           has({p.batch, p.units}, {p.h0, p.c0, p.extra_h, p.grad_c0}) && has({cell.seen, p.units}, {p.weight}) &&
           has({is_static(cell), p.units}, {p.gate_values}) && has({p.norm != nullptr, p.time, p.batch, p.units}, {p.fresh, p.grad_normed});
}
inline bool is_valid(const RepresenterStringForward& p, const char*) {
    const RepresenterChain& chain = p.chain;
    return is_known(chain) && p.time > 0 && p.units > 0 && fit({p.time, p.batch, p.units, int64_t(chain.states) + chain.products}) &&
           fit({p.units, chain.products, p.features}) && fit({p.units, p.units}) && is_one_of(p.biased, int64_t(chain.products) + 1) &&
           has({p.batch}, {p.x, p.h0, p.c0, p.output, p.h, p.c}) && has({p.biased}, {p.bias}) && has({chain.decay < 2}, {p.decay}) &&
           has({chain.decay == 3}, {p.weight}) && has({chain.highway, p.batch}, {p.carry});
}
inline bool is_valid(const RepresenterStringBackward& p, const char*) {
    const RepresenterChain& chain = p.chain;
    return is_known(chain) && p.time > 0 && p.units > 0 && fit({p.time, p.batch, p.units, int64_t(chain.states) + chain.products}) &&
           fit({p.units, p.units}) && has({p.batch}, {p.grad_output, p.products, p.states, p.c0, p.grad_z, p.extra_h, p.grad_c0}) &&
           has({chain.decay < 2}, {p.decay}) && has({chain.decay == 3}, {p.weight}) && has({chain.highway, p.batch}, {p.carry, p.grad_carry});
}
inline bool is_valid(const RepresenterFew& few, const char* operation) {
    if (!few.call || !few.grad_output) return false;
    if (*operation == 's') {
        const auto& p = *static_cast<const RepresenterStringForward*>(few.call);
        return is_valid(p, operation) && !p.mask && !p.lengths && has({p.batch}, {p.input_weight, p.products, p.states});
    }
    const auto& p = *static_cast<const RepresenterForward*>(few.call);
    return is_valid(p, operation) && !p.norm && !p.hold && !p.lengths && has({p.time, p.batch, p.units}, {p.input_weight, p.gates, p.cells});
}
inline bool is_valid(const RepresenterScan& p, const char*) {
    const int64_t factors = p.decay ? p.units : 1;
    return has({p.grad_f != nullptr, p.time, p.batch, p.units}, {p.kept, p.first}) && fit({p.time, p.batch, p.units}) && is_one_of(p.decay, 3) && has({p.time, p.batch, p.units}, {p.u, p.states}) &&
           has({p.batch, p.units}, {p.c0, p.final_state}) && has({p.time, p.batch, factors}, {p.f});
}
inline bool is_valid(const RepresenterWalk& p, const char* operation) {
    const bool backward = is_backward(operation), gated = p.edge_gate || p.source_gate || p.target_gate;
    const bool weighed = p.shift || p.factor || p.edge_gate;
    return fit({p.nodes, p.units}) && fit({p.edges, p.features, p.threads}) && fit({p.units, p.features}) &&
           fit({p.nodes, p.x_row}) && fit({p.nodes, p.gate_row}) && fit({p.nodes, p.output_row}) && fit({p.nodes, p.grad_row}) &&
           fit({p.nodes, p.grad_x_row}) && fit({p.nodes, p.grad_gate_row}) && is_one_of(p.activation, NONLINEARITIES) &&
           has({weighed, p.edges, p.features}, {p.edge_attr}) && has({gated, p.nodes, p.units}, {p.source_gate, p.target_gate}) &&
           has({p.edges}, {p.edge_index}) && has({p.nodes, p.units}, {p.x, backward ? p.grad : p.output, backward ? p.grad_x : p.x});
}
inline bool is_valid(const RepresenterSeparable& p, const char* operation) {
    const bool backward = is_backward(operation);
    return fit({p.time, p.batch, p.outputs}) && fit({p.rank, p.channels, p.outputs}) && fit({p.rank, p.length, p.outputs}) &&
           fit({p.time, p.stride, p.batch, p.channels}) && fit({p.length, p.dilation, p.batch, p.channels}) &&
           has({p.rank, p.channels, p.outputs}, {p.mix, backward ? p.grad_mix : p.mix}) && has({p.batch, p.channels}, {p.x}) &&
           has({p.rank, p.length, p.outputs}, {p.taps, backward ? p.grad_taps : p.taps}) &&
           has({p.time, p.batch, p.outputs}, {backward ? p.grad : p.output});
}
inline bool is_valid(const RepresenterRounds& p, const char* operation) {
    const int64_t N = p.nodes, d = p.channels, H = p.units, K = p.features;
    return p.depth > 0 && p.first >= 0 && fit({N, d, p.depth}) && fit({N, H, p.depth, p.steps}) && fit({p.edges, K, p.threads}) &&
           fit({d, d}) && fit({d, H, p.steps}) && fit({p.steps, K, H}) && fit({K, d}) && is_one_of(p.activation, NONLINEARITIES) &&
           has({N, d}, {p.labels}) && has({p.edges}, {p.edge_index}) && has({p.edges, K}, {p.edge_attr}) && has({d, d}, {p.weight, p.neighbors}) &&
           has({d}, {p.bias}) && has({K, d}, {p.shift}) && has({p.steps, K, H}, {p.factor}) && has({N, H}, {is_backward(operation) ? p.grad_output : p.output, p.tape});
}
inline bool is_valid(const RepresenterTrees& p, const char* operation) {
    const int64_t N = p.nodes, n = p.order, H = p.units, E = p.edges;
    const bool backward = is_backward(operation), gated = !p.decay;
    return n > 0 && E <= N && fit({N, n, H}) && fit({E, n, H}) && fit({H, H}) && fit({N, p.product_row}) && fit({N, p.gate_row}) &&
           is_one_of(p.activation, NONLINEARITIES) && has({E}, {p.edge_index}) && has({N, H}, {p.products, p.states}) &&
           has({gated, N, H}, {p.target_gate}) && has({gated, E, H}, {p.gates}) && has({backward, N, H}, {p.grad, p.grad_states, p.grad_products}) &&
           has({backward, gated, E, H}, {p.grad_z}) && has({backward, gated, N, H}, {p.grad_target}) &&
           has({backward, p.source_gate != nullptr, N, H}, {p.grad_source}) && has({backward, !gated, H}, {p.grad_decay}) &&
           has({backward, p.factor != nullptr, E, n - 1, H}, {p.grad_factor});
}
inline bool is_valid(const RepresenterActivation& p, const char* operation) {
    const int64_t N = p.rows, F = p.features, K = p.count;
    const bool backward = is_backward(operation);
    return fit({N, F}) && fit({F, K}) && is_one_of(p.green, GREENS) && has({N, F}, {p.input, backward ? p.grad : p.output}) &&
           has({F, K}, {p.centers, p.coefficients}) && has({backward, N, F}, {p.grad_input}) && has({backward, F, K}, {p.grad_centers, p.grad_coefficients});
}
inline bool is_valid(const RepresenterEdges& p, const char* operation) {
    const int64_t N = p.rows, I = p.features, J = p.outputs, K = p.count;
    const bool backward = is_backward(operation);
    return K > 0 && fit({N, I}) && fit({N, J}) && fit({I, J, K}) && p.green != 2 && is_one_of(p.green, GREENS) && has({N, I}, {p.input}) &&
           has({N, J}, {backward ? p.grad : p.output}) && has({I, K}, {p.centers}) && has({I, J, K}, {p.coefficients}) &&
           has({backward, N, I}, {p.grad_input}) && has({backward, I, K}, {p.grad_centers}) && has({backward, I, J, K}, {p.grad_coefficients});
}
inline bool is_valid(const RepresenterKbrn& p, const char* operation) {
    const int64_t T = p.time, B = p.batch, H = p.units, K = p.count;
    const bool backward = is_backward(operation);
    return H > 0 && fit({T, B, H}) && fit({H, H}) && fit({H, K, p.threads}) && is_one_of(p.green, GREENS) && has({}, {p.weight}) && has({B}, {p.h0}) &&
           has({T, B}, {p.output}) && has({K}, {p.centers, p.coefficients}) && has({p.norm && p.of_batch, T}, {p.used}) &&
           has({p.norm && !p.of_batch, T, B}, {p.statistics}) && has({!backward, T, B}, {p.z}) && has({!backward, B}, {p.h}) &&
           has({backward, T, B}, {p.grad_output, p.grad_z}) && has({backward, B}, {p.grad_h, p.grad_h0}) &&
           has({backward, K}, {p.grad_centers, p.grad_coefficients}) && has({backward && p.line}, {p.grad_line}) &&
           has({backward && p.norm}, {p.grad_norm}) && has({backward && p.norm, T, B}, {p.normed});
}
inline bool is_valid(const RepresenterAdam& p, const char*) {
    return fit({p.rows, p.features}) && p.step >= 0 && p.window >= 0 && has({p.rows}, {p.index, p.last}) && has({p.rows, p.step}, {p.a, p.b}) &&
           has({p.rows, p.gradient != nullptr}, {p.a, p.b}) && has({p.rows, p.features}, {p.weight, p.first, p.second});
}
inline bool is_valid(const RepresenterProduct& p, const char* operation) {
    const bool transposes = !std::strncmp(operation, "transposed", 10);
    return fit({p.m, p.n}) && fit({p.k, p.n}) && fit({p.m, p.a_stride}) && has({p.m, p.n}, {p.c}) &&
           has({p.m, transposes ? p.n : p.k}, {p.a}) && has({p.k, p.n}, {p.b});
}
inline bool is_valid(const RepresenterGram& p, const char*) {
    if (!fit({p.rows, p.columns}) || p.features < 0 || p.order < 1 || !has({p.rows, p.columns}, {p.x_starts, p.y_starts, p.output})) return false;
    if (!p.rows || !p.columns) return true;
    const auto ascend = [](const int64_t* starts, int64_t count) {
        for (int64_t i = 0; i < count; ++i)
            if (starts[i + 1] < starts[i]) return false;
        return true;
    };
    return ascend(p.x_starts, p.rows) && ascend(p.y_starts, p.columns) && fit({p.order, p.y_starts[p.columns]}) &&
           has({p.x_starts[p.rows] - p.x_starts[0]}, {p.x}) && has({p.y_starts[p.columns] - p.y_starts[0]}, {p.y});
}
inline bool is_known(const RepresenterNgrams& view) {
    if (!fit({view.sequences}) || !fit({view.features}) || view.orders < 1 || view.base < 1) return false;
    if (!has({}, {view.lengths, view.codes, view.tables, view.bits, view.columns, view.starts}) || !has({view.features}, {view.weights})) return false;
    for (int64_t n = 0; n < view.orders; ++n) {
        const int64_t count = view.columns[n + 1] - view.columns[n];
        if (view.lengths[n] < 1 || count < 0 || !has({count}, {view.codes[n], view.tables[n]}) || view.bits[n] < 1 || view.bits[n] > 40) return false;
    }
    return view.columns[0] == 0 && view.columns[view.orders] == view.features && has({view.starts[view.sequences]}, {view.ids});
}
inline bool is_valid(const RepresenterTexts& p, const char*) {
    if (!fit({p.rows}) || !fit({p.views}) || !fit({p.capacity}) || p.most < 0 || !p.views) return false;
    if (!has({}, {p.of_views, p.ends, p.damped, p.starts}) || !has({p.capacity}, {p.data, p.indices})) return false;
    for (int64_t v = 0; v < p.views; ++v)
        if (!is_known(p.of_views[v])) return false;
    return true;
}
inline bool is_valid(const RepresenterColumns& p, const char*) {
    return fit({p.rows, p.rows}) && fit({p.columns}) && has({}, {p.starts}) && has({p.rows}, {p.gram}) &&
           has({p.starts[p.columns]}, {p.values, p.indices});
}
inline bool is_valid(const RepresenterFilters& p, const char*) {
    return fit({p.series, p.steps}) && fit({p.series, p.rows, p.thresholds}) && fit({8, p.dilation, p.series}) && has({p.series}, {p.x, p.lengths}) &&
           has({p.rows}, {p.triples}) && has({p.rows, p.thresholds}, {p.bounds}) && has({p.series, p.rows, p.thresholds}, {p.counts});
}
inline bool is_valid(const RepresenterProbe& p, const char*) { return p.count >= 0 && has({}, {p.a, p.c, p.done}); }

}  // namespace REPRESENTER_ISA
}  // namespace representer
