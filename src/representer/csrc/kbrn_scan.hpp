// kbrn_scan: one parallel region for the whole sequence. Vectors run along the batch: each unit has a row
// over all sequences, so that the tables of its activation stay cache-resident. Blocks of W sequences are
// distributed over the threads; computing batch statistics takes two barriers per step, one after the
// partial sums and one after their reduction.
#pragma once

#include <cmath>
#include <vector>

#include "kbrn_curve.hpp"
#include "team.hpp"
#include "tile.hpp"

namespace representer {
namespace REPRESENTER_ISA {

constexpr int KBRN_N = 4;  // vectors per row of a block
template <class Real> constexpr int64_t KBRN_W = KBRN_N * Lanes<Real>::n;

// Copy a block from (B, H), and back. `stride` separates sequences, `row` separates units of the block.
template <class Real>
__attribute__((noinline)) void block_from(const Real* from, int64_t stride, int64_t lanes, int64_t H, Real* to, int64_t row) {
    constexpr int V = Lanes<Real>::n;
    for (int64_t v = 0; v < KBRN_N; ++v)
        for (int64_t i = 0; i < H; i += V) {
            const int rows = lanes - v * V <= 0 ? 0 : lanes - v * V < V ? int(lanes - v * V) : V, columns = H - i < V ? int(H - i) : V;
            Vec<Real> square[V];
            transpose<Real>(from + (rows ? v * V * stride : 0) + i, stride, rows, columns, square);
            for (int k = 0; k < columns; ++k) store<Real>(to + (i + k) * row + v * V, square[k]);
        }
}
template <class Real>
__attribute__((noinline)) void block_to(const Real* from, int64_t row, int64_t lanes, int64_t H, Real* to) {
    constexpr int V = Lanes<Real>::n;
    for (int64_t v = 0; v * V < lanes; ++v)
        for (int64_t i = 0; i < H; i += V) {
            const int rows = lanes - v * V < V ? int(lanes - v * V) : V, columns = H - i < V ? int(H - i) : V;
            Vec<Real> square[V];
            transpose<Real>(from + i * row + v * V, row, columns, V, square);
            for (int k = 0; k < rows; ++k) store(to + (v * V + k) * H + i, square[k], columns);
        }
}

// block += matrix (H, H) * other block.
template <class Real, int M> __attribute__((noinline)) void multiply_rows(const Real* matrix, const Real* block, int64_t row, int64_t H, int64_t first, Real* into) {
    constexpr int V = Lanes<Real>::n;
    Vec<Real> acc[M][KBRN_N];
    for (int r = 0; r < M; ++r)
        for (int j = 0; j < KBRN_N; ++j) acc[r][j] = load<Real>(into + (first + r) * row + j * V);
    for (int64_t k = 0; k < H; ++k) {
        Vec<Real> b[KBRN_N];
        for (int j = 0; j < KBRN_N; ++j) b[j] = load<Real>(block + k * row + j * V);
#pragma GCC unroll 8
        for (int r = 0; r < M; ++r) {
            const Vec<Real> a = splat(matrix[(first + r) * H + k]);
            for (int j = 0; j < KBRN_N; ++j) acc[r][j] += a * b[j];
        }
    }
    for (int r = 0; r < M; ++r)
        for (int j = 0; j < KBRN_N; ++j) store<Real>(into + (first + r) * row + j * V, acc[r][j]);
}
template <class Real> inline void add_product(const Real* matrix, const Real* block, int64_t row, int64_t H, Real* into) {
    constexpr int M = rows_of<Real, KBRN_N>();
    int64_t i = 0;
    for (; i + M <= H; i += M) multiply_rows<Real, M>(matrix, block, row, H, i, into);
    for (; i < H; ++i) multiply_rows<Real, 1>(matrix, block, row, H, i, into);
}

template <class Real> inline int64_t kbrn_threads(const RepresenterKbrn& p) {
    return std::max<int64_t>(1, std::min<int64_t>(p.threads, (p.batch + KBRN_W<Real> - 1) / KBRN_W<Real>));
}

// State common to both directions: layout, masks, statistics.
template <class Real> class Kbrn {
  protected:
    static constexpr int V = Lanes<Real>::n;
    static constexpr int64_t W = KBRN_W<Real>;
    const RepresenterKbrn& p;
    const int64_t H, blocks, row, size;  // row: entries per unit, padded off page multiples; size: of all units
    std::vector<int64_t> counts;         // sequences at each step

  public:
    const int64_t threads;

  protected:
    Workspace<Real> own_mean, own_inverse;  // given statistics of the current step, (H, row)
    Workspace<Real> masks;                  // (row), all ones or all zeros
    Workspace<Real> inputs;                 // to the activation of one unit, (row)
    std::vector<double> totals;             // (2, H)

    explicit Kbrn(const RepresenterKbrn& all)
        : p(all), H(all.units), blocks((all.batch + W - 1) / W), row(blocks * W + 64 / sizeof(Real)), size(H * row), counts(all.time, all.batch),
          threads(kbrn_threads<Real>(all)),
          own_mean(all.statistics ? size : 0), own_inverse(all.statistics ? size : 0), masks(row), inputs(row), totals(2 * all.units) {
        if (p.lengths)
            for (int64_t t = 0; t < p.time; ++t) {
                counts[t] = 0;
                for (int64_t b = 0; b < p.batch; ++b) counts[t] += t < p.lengths[b];
            }
    }
    template <class T> const T* in(const void* from) const { return static_cast<const T*>(from); }
    Real norm(int kind, int64_t i) const { return p.norm ? in<Real>(p.norm)[kind * H + i] : Real(1 - kind); }  // gain, offset
    int64_t lanes(int64_t block) const { return std::min(W, p.batch - block * W); }
    bool is_of_batch(int64_t t) const { return p.norm && p.of_batch && counts[t] >= 2; }
    // Set the mask of the sequences of a block that have step t; `first` marks the first step processed.
    void mark(int64_t t, int64_t block, int64_t first) {
        if (!p.lengths && t != first) return;
        for (int64_t v = block * W; v < (block + 1) * W; v += V) {
            Int<Real> real{};
            for (int64_t n = 0; n < V; ++n) real[n] = v + n < p.batch && (!p.lengths || t < p.lengths[v + n]) ? -1 : 0;
            std::memcpy(masks.at(v), &real, sizeof real);
        }
    }
    REPRESENTER_INLINE Int<Real> is_real(int64_t n) const {
        Int<Real> real;
        std::memcpy(&real, masks.at(n), sizeof real);
        return real;
    }
    // Load the given mean and 1 / deviation of a step.
    void given(int64_t t, int64_t block) const {
        const Real* from = in<Real>(p.statistics) + t * p.stat_time + block * W * p.stat_batch;
        block_from(from, p.stat_batch, lanes(block), H, own_mean.at(block * W), row);
        block_from(from + p.stat_kind, p.stat_batch, lanes(block), H, own_inverse.at(block * W), row);
        for (int64_t i = 0; i < H; ++i) {
            Real* inverse = own_inverse.at(i * row + block * W);
            for (int64_t n = 0; n < W; ++n) inverse[n] = Real(1) / std::sqrt(inverse[n] + Real(p.epsilon));
        }
    }
};

template <class Real> class KbrnForward : Kbrn<Real> {
    typedef Kbrn<Real> Own;
    using Own::V, Own::W, Own::p, Own::H, Own::blocks, Own::row, Own::size, Own::counts, Own::totals, Own::inputs, Own::lanes, Own::own_mean, Own::own_inverse;
    const Curve<Real>& curve;
    Workspace<Real> states, sums;  // h and a, (H, row) each

  public:
    using Own::threads;
    KbrnForward(const RepresenterKbrn& all, const Curve<Real>& of)
        : Own(all), curve(of), states(size), sums(size) {
        for (int64_t k = 0; k < blocks; ++k) block_from(this->template in<Real>(p.h0) + k * W * H, H, lanes(k), H, states.at(k * W), row);
    }
    // Body of one of `team` threads.
    void run(int64_t thread, int64_t team) {
        const int64_t first = share(blocks, team, thread), last = share(blocks, team, thread + 1);
        for (int64_t t = 0; t < p.time; ++t) {
            for (int64_t k = first; k < last; ++k) add(t, k);
            if (this->is_of_batch(t)) {
                REPRESENTER_BARRIER
                for (int64_t i = share(H, team, thread); i < share(H, team, thread + 1); ++i) moments(t, i);
                REPRESENTER_BARRIER
            } else if (p.norm) {
                for (int64_t i = 0; p.of_batch && thread == 0 && i < H; ++i) used(0, t)[i] = used(1, t)[i] = 0;
                for (int64_t k = first; k < last; ++k) this->given(t, k);
            }
            for (int64_t i = 0; i < H; ++i) emit(t, i, first * W, last * W);
            for (int64_t k = first; k < last; ++k) block_to(sums.at(k * W), row, lanes(k), H, static_cast<Real*>(p.output) + (t * p.batch + k * W) * H);
        }
        for (int64_t k = first; k < last; ++k) block_to(states.at(k * W), row, lanes(k), H, static_cast<Real*>(p.h) + k * W * H);
    }

  private:
    Real* used(int kind, int64_t t) const { return static_cast<Real*>(p.used) + (kind * p.time + t) * H; }

    void add(int64_t t, int64_t k) {
        Real* a = sums.at(k * W);
        this->mark(t, k, 0);
        block_from(this->template in<Real>(p.z) + (t * p.batch + k * W) * H, H, lanes(k), H, a, row);
        add_product(this->template in<Real>(p.weight), states.at(k * W), row, H, a);
        if (!p.lengths) return;  // the padding beyond the batch is already 0
        for (int64_t i = 0; i < H; ++i)
            for (int64_t n = 0; n < W; n += V) store<Real>(a + i * row + n, this->is_real(k * W + n) ? load<Real>(a + i * row + n) : Vec<Real>{});
    }
    void moments(int64_t t, int64_t i) {
        const Real* a = sums.at(i * row);
        Vec<Real> total{}, squares{};
        for (int64_t n = 0; n < blocks * W; n += V) total += load<Real>(a + n);
        const Real mean = Real(double(sum<Real>(total)) / double(counts[t]));
        for (int64_t n = 0; n < blocks * W; n += V) {
            const Vec<Real> centered = load<Real>(a + n) - mean;
            squares += this->is_real(n) ? centered * centered : Vec<Real>{};
        }
        const Real var = Real(double(sum<Real>(squares)) / double(counts[t]));
        used(0, t)[i] = mean, used(1, t)[i] = var;
        totals[i] = mean, totals[H + i] = 1 / std::sqrt(double(var) + p.epsilon);
    }
    // Process sequences [first, end) of one unit.
    void emit(int64_t t, int64_t i, int64_t first, int64_t end) {
        const bool of_batch = this->is_of_batch(t);
        const int64_t count = std::min(end, p.batch) - first;
        const Vec<Real> gain = splat(this->norm(0, i)), offset = splat(this->norm(1, i));
        const Vec<Real> mean = splat(Real(totals[i])), inverse = splat(Real(totals[H + i]));
        Real *a = sums.at(i * row), *h = states.at(i * row), *at = inputs.at(0);
        for (int64_t n = first; n < end; n += V) {
            Vec<Real> x = load<Real>(a + n);
            if (p.norm) {
                x = of_batch ? (x - mean) * inverse : (x - load<Real>(own_mean.at(i * row + n))) * load<Real>(own_inverse.at(i * row + n));
                x = this->is_real(n) ? x : Vec<Real>{};
            }
            store<Real>(a + n, x);
            store<Real>(at + n, x * gain + offset);
        }
        if (p.normed) std::memcpy(static_cast<Real*>(p.normed) + (t * H + i) * p.batch + first, a + first, count * sizeof(Real));
        curve.values(i, at + first, at + first, count);
        for (int64_t n = first; n < end; n += V) {
            const Int<Real> real = this->is_real(n);
            const Vec<Real> fresh = load<Real>(at + n);
            store<Real>(a + n, real ? fresh : Vec<Real>{});
            store<Real>(h + n, real ? fresh : load<Real>(h + n));
        }
    }
};

}  // namespace REPRESENTER_ISA
}  // namespace representer
