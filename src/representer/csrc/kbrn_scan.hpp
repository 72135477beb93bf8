// kbrn_scan: one parallel region for the whole sequence. Vectors lie along the batch: a block is W
// sequences, and holds a row of W for every unit. Threads share the blocks; where the statistics of the
// batch are taken they meet twice a step, once the blocks are summed and once the sums are there.
#pragma once

#include <cmath>
#include <vector>

#include "kbrn_curve.hpp"
#include "tile.hpp"

#if defined(_OPENMP)
#include <omp.h>
#define REPRESENTER_BARRIER _Pragma("omp barrier")
#else
#define REPRESENTER_BARRIER
#endif

namespace representer {
namespace REPRESENTER_ISA {

constexpr int KBRN_N = 4;  // vectors of a row
template <class Real> constexpr int64_t KBRN_W = KBRN_N * Lanes<Real>::n;

// Rows of a block from (B, H), and back; `stride` apart are the sequences.
template <class Real> inline void block_from(const Real* from, int64_t stride, int64_t lanes, int64_t H, Real* to) {
    constexpr int V = Lanes<Real>::n;
    for (int64_t v = 0; v < KBRN_N; ++v)
        for (int64_t i = 0; i < H; i += V) {
            const int rows = lanes - v * V <= 0 ? 0 : lanes - v * V < V ? int(lanes - v * V) : V, columns = H - i < V ? int(H - i) : V;
            Vec<Real> square[V];
            transpose<Real>(from + (rows ? v * V * stride : 0) + i, stride, rows, columns, square);
            for (int k = 0; k < columns; ++k) store<Real>(to + (i + k) * KBRN_W<Real> + v * V, square[k]);
        }
}
template <class Real> inline void block_to(const Real* from, int64_t lanes, int64_t H, Real* to) {
    constexpr int V = Lanes<Real>::n;
    for (int64_t v = 0; v * V < lanes; ++v)
        for (int64_t i = 0; i < H; i += V) {
            const int rows = lanes - v * V < V ? int(lanes - v * V) : V, columns = H - i < V ? int(H - i) : V;
            Vec<Real> square[V];
            transpose<Real>(from + i * KBRN_W<Real> + v * V, KBRN_W<Real>, columns, V, square);
            for (int k = 0; k < rows; ++k) store(to + (v * V + k) * H + i, square[k], columns);
        }
}

// rows += matrix (H, H) times other rows; acc starts from what `into` holds.
template <class Real, int M> __attribute__((noinline)) void multiply_rows(const Real* matrix, const Real* rows, int64_t H, int64_t first, Real* into) {
    constexpr int V = Lanes<Real>::n;
    Vec<Real> acc[M][KBRN_N];
    const Real* a[M];
    for (int r = 0; r < M; ++r) {
        a[r] = matrix + (first + r) * H;
        for (int j = 0; j < KBRN_N; ++j) acc[r][j] = load<Real>(into + (first + r) * KBRN_W<Real> + j * V);
    }
    multiply<Real, M, KBRN_N>(acc, a, H, rows);
    for (int r = 0; r < M; ++r)
        for (int j = 0; j < KBRN_N; ++j) store<Real>(into + (first + r) * KBRN_W<Real> + j * V, acc[r][j]);
}
template <class Real> inline void add_product(const Real* matrix, const Real* rows, int64_t H, Real* into) {
    constexpr int M = rows_of<KBRN_N>();
    int64_t i = 0;
    for (; i + M <= H; i += M) multiply_rows<Real, M>(matrix, rows, H, i, into);
    for (; i < H; ++i) multiply_rows<Real, 1>(matrix, rows, H, i, into);
}

// What both directions have: blocks, who is real, statistics.
template <class Real, class Curve> class Kbrn {
  protected:
    static constexpr int V = Lanes<Real>::n;
    static constexpr int64_t W = KBRN_W<Real>;
    const RepresenterKbrn& p;
    const Curve& curve;
    const int64_t H, blocks, size;  // size: numbers of a block
    std::vector<int64_t> counts;    // sequences at each step

  public:
    const int64_t threads;

  protected:
    Workspace<Real> own_mean, own_inverse;  // of a given step and block, one a thread
    Workspace<Real> masks;                  // (blocks, W), ones or no bits
    std::vector<double> totals;             // (2, H)

    Kbrn(const RepresenterKbrn& all, const Curve& of)
        : p(all), curve(of), H(all.units), blocks((all.batch + W - 1) / W), size(all.units * W), counts(all.time, all.batch),
          threads(std::max<int64_t>(1, std::min<int64_t>(all.threads, blocks))),
          own_mean(all.statistics ? threads * size : 0), own_inverse(all.statistics ? threads * size : 0), masks(blocks * W), totals(2 * all.units) {
        if (p.lengths)
            for (int64_t t = 0; t < p.time; ++t) {
                counts[t] = 0;
                for (int64_t b = 0; b < p.batch; ++b) counts[t] += t < p.lengths[b];
            }
    }
    template <class T> const T* in(const void* from) const { return static_cast<const T*>(from); }
    int64_t lanes(int64_t block) const { return std::min(W, p.batch - block * W); }
    bool is_of_batch(int64_t t) const { return p.norm && p.of_batch && counts[t] >= 2; }
    // Note which sequences of a block have a step t; `first` is the first of the steps taken.
    void mark(int64_t t, int64_t block, int64_t first) {
        if (!p.lengths && t != first) return;
        for (int64_t v = 0; v < W; v += V) {
            Int<Real> real{};
            for (int64_t n = 0; n < V; ++n) {
                const int64_t b = block * W + v + n;
                real[n] = b < p.batch && (!p.lengths || t < p.lengths[b]) ? -1 : 0;
            }
            std::memcpy(masks.at(block * W + v), &real, sizeof real);
        }
    }
    REPRESENTER_INLINE Int<Real> is_real(int64_t block, int64_t n) const {
        Int<Real> real;
        std::memcpy(&real, masks.at(block * W + n), sizeof real);
        return real;
    }
    // mean and 1 / deviation of a step that are given, as rows of a block
    void given(int64_t t, int64_t block, int64_t thread) const {
        const Real* from = in<Real>(p.statistics) + t * p.stat_time + block * W * p.stat_batch;
        Real *mean = own_mean.at(thread * size), *inverse = own_inverse.at(thread * size);
        block_from(from, p.stat_batch, lanes(block), H, mean);
        block_from(from + p.stat_kind, p.stat_batch, lanes(block), H, inverse);
        for (int64_t n = 0; n < size; ++n) inverse[n] = Real(1) / std::sqrt(inverse[n] + Real(p.epsilon));
    }
};

template <class Real, class Curve> class KbrnForward : Kbrn<Real, Curve> {
    typedef Kbrn<Real, Curve> Own;
    using Own::V, Own::W, Own::p, Own::curve, Own::H, Own::blocks, Own::size, Own::counts, Own::totals, Own::lanes, Own::own_mean, Own::own_inverse;
    Workspace<Real> states, sums;  // h and a, (blocks, H, W) each

  public:
    using Own::threads;
    KbrnForward(const RepresenterKbrn& all, const Curve& of)
        : Own(all, of), states(blocks * size), sums(blocks * size) {
        for (int64_t k = 0; k < blocks; ++k) block_from(this->template in<Real>(p.h0) + k * W * H, H, lanes(k), H, states.at(k * size));
    }
    // One of `team` threads.
    void run(int64_t thread, int64_t team) {
        const int64_t first = share(blocks, team, thread), last = share(blocks, team, thread + 1);
        for (int64_t t = 0; t < p.time; ++t) {
            for (int64_t k = first; k < last; ++k) add(t, k);
            if (this->is_of_batch(t)) {
                REPRESENTER_BARRIER
                for (int64_t i = share(H, team, thread); i < share(H, team, thread + 1); ++i) moments(t, i);
                REPRESENTER_BARRIER
            } else if (p.norm && p.of_batch && thread == 0) {
                for (int64_t i = 0; i < H; ++i) used(0, t)[i] = used(1, t)[i] = 0;
            }
            for (int64_t k = first; k < last; ++k) emit(t, k, thread);
        }
        for (int64_t k = first; k < last; ++k) block_to(states.at(k * size), lanes(k), H, static_cast<Real*>(p.h) + k * W * H);
    }

  private:
    Real* used(int kind, int64_t t) const { return static_cast<Real*>(p.used) + (kind * p.time + t) * H; }

    void add(int64_t t, int64_t k) {
        Real* a = sums.at(k * size);
        this->mark(t, k, 0);
        block_from(this->template in<Real>(p.z) + (t * p.batch + k * W) * H, H, lanes(k), H, a);
        add_product(this->template in<Real>(p.weight), states.at(k * size), H, a);
        for (int64_t n = 0; n < size; n += V) store<Real>(a + n, this->is_real(k, n % W) ? load<Real>(a + n) : Vec<Real>{});
    }
    void moments(int64_t t, int64_t i) {
        Vec<Real> total{}, squares{};
        for (int64_t k = 0; k < blocks; ++k)
            for (int64_t n = 0; n < W; n += V) total += load<Real>(sums.at(k * size + i * W + n));
        const Real mean = Real(double(sum<Real>(total)) / double(counts[t]));
        for (int64_t k = 0; k < blocks; ++k) {
            for (int64_t n = 0; n < W; n += V) {
                const Vec<Real> centred = load<Real>(sums.at(k * size + i * W + n)) - mean;
                squares += this->is_real(k, n) ? centred * centred : Vec<Real>{};
            }
        }
        const Real var = Real(double(sum<Real>(squares)) / double(counts[t]));
        used(0, t)[i] = mean, used(1, t)[i] = var;
        totals[i] = mean, totals[H + i] = 1 / std::sqrt(double(var) + p.epsilon);
    }
    void emit(int64_t t, int64_t k, int64_t thread) {
        Real *a = sums.at(k * size), *h = states.at(k * size);
        const bool of_batch = this->is_of_batch(t);
        if (p.norm && !of_batch) this->given(t, k, thread);
        alignas(64) Real at[KBRN_W<Real>], fresh[KBRN_W<Real>] = {}, out[KBRN_W<Real>];
        const int64_t count = lanes(k);
        for (int64_t i = 0; i < H; ++i) {
            const Real gain = p.norm ? this->template in<Real>(p.norm)[i] : Real(1), offset = p.norm ? this->template in<Real>(p.norm)[H + i] : Real(0);
            Real *row = a + i * W, *old = h + i * W;
            for (int64_t n = 0; n < W; n += V) {
                const Int<Real> real = this->is_real(k, n);
                Vec<Real> x = load<Real>(row + n);
                if (p.norm) {
                    const Vec<Real> mean = of_batch ? splat(Real(totals[i])) : load<Real>(own_mean.at(thread * size + i * W + n));
                    const Vec<Real> inverse = of_batch ? splat(Real(totals[H + i])) : load<Real>(own_inverse.at(thread * size + i * W + n));
                    x = real ? (x - mean) * inverse : Vec<Real>{};
                    store<Real>(at + n, x * gain + offset);
                } else {
                    store<Real>(at + n, x);
                }
                store<Real>(row + n, x);
            }
            curve.values(i, at, fresh, int(count));
            for (int64_t n = 0; n < W; n += V) {
                const Int<Real> real = this->is_real(k, n);
                const Vec<Real> own = load<Real>(fresh + n);
                store<Real>(out + n, real ? own : Vec<Real>{});
                store<Real>(old + n, real ? own : load<Real>(old + n));
            }
            if (p.normed) std::memcpy(static_cast<Real*>(p.normed) + (t * H + i) * p.batch + k * W, row, count * sizeof(Real));
            std::memcpy(row, out, sizeof out);
        }
        block_to(a, count, H, static_cast<Real*>(p.output) + (t * p.batch + k * W) * H);
    }
};

}  // namespace REPRESENTER_ISA
}  // namespace representer
