// C interface of the core: structs of raw pointers, sizes and strides (in elements).
// representer/ops/core.py mirrors every struct. A null pointer marks an absent argument.
#pragma once

#include <cstdint>

extern "C" {

// A representer.functional.Cell. The G gates are ordered candidate, input, forget, output (those
// that are present); the last R of them depend on the previous emission.
struct RepresenterCell {
    int32_t input_gate;   // 0 dynamic, 1 coupled, 2 static
    int32_t forget_gate;  // 0 dynamic, 1 static, 2 none
    int32_t output_gate;  // 0 none, 1 dynamic
    int32_t candidate;    // Nonlinearity
    int32_t output;       // Nonlinearity
    int32_t memory;       // 0 the cell, 1 the output, 2 e^cell - 1
    int32_t gates;        // G
    int32_t seen;         // R
};

struct RepresenterForward {
    RepresenterCell cell;
    int64_t time, batch, units, features;  // T, B, H, I
    int32_t reverse, threads, biased;
    const void* x;             // (T, B, I) with input_weight, else the products (T, B, G, H)
    int64_t x_time, x_batch;   // strides of x; the remaining axes are contiguous
    const void* input_weight;  // (G H, I)
    const void* bias;          // of the last `biased` gates, (biased, H)
    const void* weight;        // (R H, H)
    const void *h0, *c0;       // (B, H)
    const void* gate_values;   // static gates (2, H)
    const void* norm;          // gain and bias (2, H)
    const void* hold;          // (2, T, B, H)
    const int64_t* lengths;    // (B,)
    void* output;              // (T, B, H)
    void *h, *c;               // (B, H)
    void* gates;               // (T, B, G, H), or null
    void* cells;               // (T, B, H), or null
    void* fresh;               // (T, B, H) if norm or hold is given, else null
    void* packed;              // bias and weights as rkm_pack writes them, or null
    double epsilon;            // of the layer norm
};

struct RepresenterBackward {
    RepresenterCell cell;
    int64_t time, batch, units;
    int32_t reverse, threads;
    const void* grad_output;          // (T, B, H)
    int64_t grad_time, grad_batch;    // strides of grad_output
    const void* grad_h;               // (B, H)
    const void* grad_c;               // (B, H)
    const void* output;               // (T, B, H)
    const void* gates;                // (T, B, G, H)
    const void* cells;                // (T, B, H)
    const void* fresh;                // (T, B, H), or null
    const void* weight;               // (R H, H)
    const void *h0, *c0;
    const void* gate_values;
    const void* norm;
    const void* hold;
    const int64_t* lengths;
    void* grad_z;      // (T, B, G, H)
    void* extra_h;     // (B, H): gradient of h0 that bypasses the recurrent matrices
    void* grad_c0;     // (B, H)
    void* grad_fresh;  // (T, B, H): gradient of the new cell before the norm, or null
    void* grad_normed; // (T, B, H): gradient of the new cell after the norm, or null
    double epsilon;
};

// A representer.functional.StringChain.
struct RepresenterChain {
    int32_t order;       // n
    int32_t combine;     // 0 multiply, 1 add, 2 add_exact
    int32_t normalized;  // 0 no, 1 paper, 2 exact
    int32_t sums;        // readout: 0 last state, 1 sum of all states
    int32_t decay;       // 0 scalar, 1 per unit, 2 gate on x, 3 gate on x and h
    int32_t highway;
    int32_t activation;  // Nonlinearity
    int32_t products;    // P
    int32_t states;      // S
};

struct RepresenterStringForward {
    RepresenterChain chain;
    int64_t time, batch, units, features;  // T, B, H, I
    int32_t reverse, threads, biased;
    const void* x;             // (T, B, I) with input_weight, else the products (T, B, P, H)
    const void* input_weight;  // (P H, I)
    const void* bias;          // of the last `biased` products, (biased, H)
    const void* decay;         // () or (H,)
    const void* weight;        // (H, H)
    const void* h0;            // (B, H)
    const void* c0;            // (B, S, H)
    const void* carry;         // (T, B, H)
    const void* mask;          // (B, H)
    const int64_t* lengths;    // (B,)
    void* output;              // (T, B, H)
    void* h;                   // (B, H)
    void* c;                   // (B, S, H)
    void* products;            // (T, B, P, H) with gates after the sigmoid, or null
    void* states;              // (T, B, S, H), or null
    void* packed;              // weights as string_pack writes them, or null
};

struct RepresenterStringBackward {
    RepresenterChain chain;
    int64_t time, batch, units;
    int32_t reverse, threads;
    const void* grad_output;        // (T, B, H)
    int64_t grad_time, grad_batch;  // strides of grad_output
    const void* grad_h;             // (B, H)
    const void* grad_c;             // (B, S, H)
    const void* products;           // (T, B, P, H)
    const void* states;             // (T, B, S, H)
    const void* decay;
    const void* weight;
    const void* c0;
    const void* carry;
    const void* mask;
    const int64_t* lengths;
    void* grad_z;      // (T, B, P, H)
    void* grad_carry;  // (T, B, H), or null
    void* extra_h;     // (B, H): gradient of h0 that bypasses the recurrent matrix
    void* grad_c0;     // (B, S, H)
    void* grad_decay;  // (B, H), or null
};

// The gradient of a call of few rows of rkm_scan or string_scan in one piece. Gradients that are null are not needed,
// those of the results are 0 if they are null.
struct RepresenterFew {
    int32_t threads;
    const void* call;                 // RepresenterForward or RepresenterStringForward with input_weight, as it ran
    const void* grad_output;          // (T, B, H)
    int64_t grad_time, grad_batch;    // strides of grad_output
    const void* grad_h;               // (B, H)
    const void* grad_c;               // (B, H) or (B, S, H)
    void* grad_x;                     // (T, B, I)
    void* grad_h0;                    // (B, H)
    void* grad_c0;                    // as grad_c
    void* grad_input;                 // of input_weight
    void* grad_bias;
    void* grad_weight;
    void* grad_decay;                 // () or (H,)
};

struct RepresenterScan {
    int64_t time, batch, units;
    int32_t reverse, threads;
    int32_t decay;            // 0 scalar, 1 per unit (H,), 2 (T, B, H)
    const void* u;            // (T, B, H); gradient of the states in the backward pass
    const void* f;
    const void* c0;           // (B, H); gradient of the final state in the backward pass
    const int64_t* lengths;
    void* states;             // (T, B, H); gradient of u in the backward pass
    void* final_state;        // (B, H); gradient of c0 in the backward pass
    const void *kept, *first; // backward: states of the forward pass, and its c0
    void* grad_f;             // (T, B, H) if f is, else (B, H), to be summed; or null
};

// N nodes, H units, E edges with K features; weights are (K, H). Node arrays have explicit row
// strides, so that they can be column slices of one matrix.
struct RepresenterWalk {
    int64_t nodes, units, edges, features;
    int32_t threads, activation;  // activation: Nonlinearity of the shifted messages
    int64_t x_row, gate_row, output_row, grad_row, grad_x_row, grad_gate_row;
    int64_t targets, first_node;  // offset from an edge's source to its target; index of the first node
    const void* x;                // (N, H)
    const int64_t* edge_index;    // (2, E)
    const void* edge_attr;        // (E, K)
    const void* shift;
    const void* factor;
    const void* edge_gate;
    const void* source_gate;      // (N, H)
    const void* target_gate;      // (N, H)
    void* output;                 // (N, H), zero-initialized, as are all gradients
    const void* grad;             // (N, H)
    void* grad_x;
    void* grad_edges;             // (threads, E, K), to be summed, or null
    void *grad_shift, *grad_factor;
    void* grad_source;
    void* grad_target;
    void* grad_edge_gate;
    double scale;                 // value of a fully open gate
};

// A convolution with O filters over I channels and n slots, each a sum of R rank-1 terms.
struct RepresenterSeparable {
    int64_t time, batch, outputs, channels, length, rank, stride, dilation;  // T, B, O, I, n, R
    int32_t threads;
    const void* x;     // (S, B, I) with S > (T - 1) stride + (n - 1) dilation
    const void* mix;   // (R, I, O)
    const void* taps;  // (R, n, O)
    void* output;      // (T, B, O)
    const void* grad;  // (T, B, O)
    void* grad_mix;
    void* grad_taps;
};

// The rounds of a Weisfeiler-Lehman network (ops/walk_rounds), forward and backward.
struct RepresenterRounds {
    int64_t nodes, channels, units, edges, features, steps, depth, first;  // steps of a walk: n - 1
    int32_t threads, activation, keep;  // keep: one slice of hidden and tape per round, else one shared slice
    const void* labels;                 // (N, d)
    const int64_t* edge_index;          // (2, E)
    const void* edge_attr;              // (E, K)
    const void* weight;                 // (R, d)
    const void* bias;                   // (R)
    const void* neighbors;             // (d, d)
    const void* shift;                  // (K, d)
    const void* factor;                 // (n - 1, K, H)
    const void* edge_gate;              // (K, H) or null
    void* output;                       // (N, H)
    void* hidden;                       // (L - 1, N, d)
    void* tape;                         // (L, N (R + (n - 1) H + d))
    const void* grad_output;            // (N, H)
    void* grad_labels;
    void* grad_edges;                   // (threads, E, K) zeros, to be summed, or null
    void* grad_weight;                  // (R, d)
    void* grad_bias;                    // zero-initialized, as are the gradients of edge weights below
    void* grad_neighbors;              // (d, d)
    void* grad_shift;                   // (K, d)
    void* grad_factor;                  // (n - 1, K, H)
    void* grad_edge_gate;               // (K, H)
    double scale;                       // value of a fully open gate
};

// The recurrence over trees (ops/tree_scan), forward and backward. The rows of products and of both gates may be
// columns of a wider matrix.
struct RepresenterTrees {
    int64_t nodes, order, units, edges;   // N, n, H, E
    int64_t product_row, gate_row;        // strides of the nodes
    int32_t threads, activation, scalar;  // scalar: one decay for all units
    const void* products;                 // (N, n, H)
    const int64_t* edge_index;            // (2, E), child and parent
    const void* decay;                    // (1) or (H), or null with gates
    const void* source_gate;              // (N, H), or null
    const void* target_gate;              // (N, H), or null without gates
    const void* state_gate;               // (H, H), or null
    const void* factor;                   // (E, n - 1, H), or null
    void* states;                         // (N, n, H)
    void* gates;                          // (E, H), before the scale
    const void* grad;                     // (N, n, H)
    void* grad_states;                    // (N, n, H), overwritten
    void* grad_products;                  // (N, n, H)
    void* grad_z;                         // (E, H), of the argument of the gates
    void *grad_source, *grad_target;      // (N, H), zero-initialized, as is the next
    void* grad_decay;                     // (H)
    void* grad_factor;                    // (E, n - 1, H)
    double scale;                         // value of a fully open gate
};

// N inputs of F features, each with an expansion of K centers.
struct RepresenterActivation {
    int64_t rows, features, count;  // N, F, K
    int32_t green, threads;         // Green
    const void* input;              // (N, F)
    const void* centers;            // (F, K), in any order
    const void* coefficients;       // (F, K)
    const void* grad;               // (N, F)
    void* output;                   // (N, F)
    void* grad_input;               // (N, F)
    void* grad_centers;             // (F, K)
    void* grad_coefficients;        // (F, K)
    double bandwidth;               // of the Gaussian kernel
};

// N rows of I inputs; a function of K centers on each edge to the J outputs (ops/edge_activation).
struct RepresenterEdges {
    int64_t rows, features, outputs, count;  // N, I, J, K
    int32_t green, threads;                  // Green
    const void* input;                       // (N, I)
    const void* centers;                     // (I, K), in any order
    const void* coefficients;                // (I, J, K)
    const void* grad;                        // (N, J)
    void* output;                            // (N, J)
    void* grad_input;                        // (N, I)
    void* grad_centers;                      // (I, K)
    void* grad_coefficients;                 // (I, J, K)
};

// A recurrent network with learned activations (ops/kbrn_scan), forward and backward.
struct RepresenterKbrn {
    int64_t time, batch, units, count;               // T, B, H, K
    int32_t green, threads, of_batch;                // of_batch: compute batch statistics
    int64_t stat_kind, stat_time, stat_batch;        // strides of statistics
    const void* z;             // (T, B, H)
    const void* weight;        // (H, H)
    const void* h0;            // (B, H)
    const void* centers;       // (H, K), in any order
    const void* coefficients;  // (H, K)
    const void* line;          // (H, 2), or null
    const void* norm;          // gain and offset (2, H), or null
    const void* statistics;    // mean and variance (2, T, B, H), H contiguous, with norm
    const int64_t* lengths;    // (B,), or null
    void* output;              // (T, B, H)
    void* h;                   // (B, H)
    void* used;                // (2, T, H) with of_batch
    void* normed;              // (T, H, B), or null
    const void* grad_output;   // (T, B, H)
    const void* grad_h;        // (B, H)
    void* grad_z;              // (T, B, H)
    void* grad_h0;             // (B, H)
    void* grad_centers;        // (H, K)
    void* grad_coefficients;   // (H, K)
    void* grad_line;           // (H, 2), or null
    void* grad_norm;           // (2, H), or null
    double bandwidth, epsilon;
};

struct RepresenterProduct {
    int64_t m, n, k;
    int32_t threads;
    const void* a;     // (m, k) with row stride a_stride; for a transpose (m, n), contiguous
    const void* b;     // (k, n)
    void* c;           // (m, n); for a transpose (n, m)
    int64_t a_stride;
};

// Every sequence of x against every sequence of y; sequence i is rows [starts[i], starts[i+1]).
struct RepresenterGram {
    int64_t rows, columns, features, order;  // N, M, d (0: integer tokens), n
    int32_t threads, symmetric, trailing;    // symmetric: only columns from each row's own group onward
    const void* x;                           // (sum of lengths, d)
    const void* y;
    const int64_t* x_starts;                 // (N + 1,)
    const int64_t* y_starts;                 // (M + 1,)
    void* output;                            // (N, M)
    double decay;
};

// The n-grams of sequences of numbered tokens, without gaps: a view of texts.
struct RepresenterNgrams {
    int64_t sequences, features, orders;     // S, F, O
    int64_t base, boundary;                  // numbers of tokens + 1; the token that is not inside an n-gram, or -1
    const int64_t* lengths;                  // (O,) of the n-grams
    const int64_t* const* codes;             // of each order, ascending
    const int32_t* const* tables;            // of each order: the position of a code in each slot, -1 without one
    const int64_t* bits;                     // (O,) of the numbers of slots
    const int64_t* columns;                  // (O + 1,) the first column of each order
    const int64_t* ids;                      // the tokens of all sequences, -1 for one without a number
    const int64_t* starts;                   // (S + 1,) of the sequences
    const int64_t* summed;                   // the sequences whose n-grams a text sums, or null: text i has those of i
    const double* weights;                   // (F,)
};

// N texts: each view is damped, weighted and scaled to length 1, and they stand side by side.
struct RepresenterTexts {
    int64_t rows, views, capacity, most;     // N; entries of data; the largest count of an n-gram
    int32_t threads;
    const RepresenterNgrams* of_views;
    const int64_t* ends;                     // (N + 1,) of the texts among the summed sequences
    const double* damped;                    // (most + 1,) log(1 + count)
    void* data;                              // (capacity,)
    int32_t* indices;                        // (capacity,)
    int64_t* starts;                         // (N + 1,) of the rows
    double scale;                            // of every view
};

// N sparse rows of F columns, by columns; the rows of a column ascend.
struct RepresenterColumns {
    int64_t rows, columns;                   // N, F
    int32_t threads;
    const void* values;                      // (E,)
    const int32_t* indices;                  // (E,) their rows
    const int64_t* starts;                   // (F + 1,) of the columns
    void* gram;                              // (N, N)
};

// R filters of nine taps on one channel of N series, and J thresholds of each.
struct RepresenterFilters {
    int64_t series, steps, rows, thresholds, dilation;  // N, T, R, J, steps between two taps
    int32_t threads;
    const void* x;                           // (N, T + 8 dilation), zeros before and behind each series
    const int64_t* lengths;                  // (N,)
    const int64_t* triples;                  // (R, 3) the taps of weight 2; -1: the mean of all
    const void* bounds;                      // (R, J)
    double* counts;                          // (N, R, J) steps that exceed a threshold
    double* excess;                          // (N, R, J) by how much, all of them together; or null
};

// R rows of a weight (V, E) and of Adam's moments: the steps that they missed, and one with a gradient.
struct RepresenterAdam {
    int64_t rows, features, step, window;  // R, E, steps so far, most missed steps whose moves are performed
    int32_t threads;
    const int64_t* index;                  // (R,) distinct rows
    int64_t* last;                         // (V,) last step of each row, -1 for none
    const double* a;                       // of each step: rate b / (1 - beta1^j)
    const double* b;                       // sqrt(1 - beta2^j)
    const void* gradient;                  // (R, E), or null
    void* weight;
    void* first;                           // (V, E), as is the next
    void* second;
    double beta1, beta2, epsilon;
};

// Peak arithmetic and memory throughput; benchmarks/machine.py mirrors this struct.
struct RepresenterProbe {
    int64_t count;   // rounds of arithmetic, or length of a, b and c
    int32_t threads;
    const void* a;
    const void* b;
    void* c;
    double* done;    // output: floating-point operations, or bytes read and written
};

}  // extern "C"
