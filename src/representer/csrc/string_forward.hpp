// string_scan forward. The input products are computed for a block of steps at a time into a
// cache-resident buffer; one pass over the buffer advances the states, which stay in the cache too.
//
// The equations are those of representer/functional/string_scan.py. Unless the decay depends on h, all
// units and sequences are independent, and threads split both; otherwise they split the batch.
#pragma once

#include "core.hpp"
#include "gemm.hpp"
#include "parallel.hpp"
#include "tile.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

enum Combine { MULTIPLY, ADD, ADD_EXACT };
enum Normalized { NO, PAPER, EXACT };
enum Decay { ONE_DECAY, DECAY_OF_UNIT, GATE, STATE_GATE };

inline bool has_mass(const RepresenterChain& chain) { return chain.combine == ADD_EXACT || chain.normalized == EXACT; }

// Return c / m, or 0 where m is 0.
template <class Real> REPRESENTER_INLINE Vec<Real> by_mass(Vec<Real> c, Vec<Real> m) {
    return m == Real(0) ? Vec<Real>{} : c / m;
}

// Partition of the batch and the units into bands: a block of rows by a block of units.
struct Bands {
    int64_t batch, H, rows, units, across;

    Bands(int64_t batch, int64_t H, int64_t threads, int64_t most, bool whole_rows) : batch(batch), H(H) {
        const int64_t fair = (batch * H + threads - 1) / threads, entries = fair < most ? fair : most;
        rows = entries / H > 1 ? entries / H : 1;
        units = rows > 1 || entries >= H ? H : round_up(entries, 16);
        if (whole_rows) rows = (batch + threads - 1) / threads, units = H;
        across = (H + units - 1) / units;
    }
    int64_t count() const { return (batch + rows - 1) / rows * across; }
    int64_t first(int64_t band) const { return band / across * rows; }
    int64_t last(int64_t band) const { return first(band) + rows < batch ? first(band) + rows : batch; }
    int64_t unit(int64_t band) const { return band % across * units; }
    int64_t end(int64_t band) const { return unit(band) + units < H ? unit(band) + units : H; }
};
constexpr int64_t BAND_BYTES = 1 << 17;  // size of the states of a band

// to[r][j] = sum_k from[r][k] V[j][k] for rows [first, last), in panels of N vectors.
template <class Real, int N> class RowsByPanels {
    static constexpr int V = Lanes<Real>::n, MOST = rows_of<Real, N>();

  public:
    RowsByPanels(const Real* panels, int64_t K, int64_t outputs) : panels(panels), K(K), outputs(outputs) {}

    void run(const Real* from, int64_t stride, int64_t rows, Real* to, int64_t to_stride) const {
        const int64_t tiles = (rows + MOST - 1) / MOST;
        for (int64_t column = 0; column < outputs; column += N * V)
            for (int64_t tile = 0; tile < tiles; ++tile) {
                const int64_t row = share(rows, tiles, tile);
                some<MOST>(int(share(rows, tiles, tile + 1) - row), from + row * stride, stride,
                           to + row * to_stride + column, to_stride, column);
            }
    }

  private:
    const Real* panels;
    const int64_t K, outputs;

    template <int M> void some(int m, const Real* from, int64_t stride, Real* to, int64_t to_stride, int64_t column) const {
        if constexpr (M > 1)
            if (m < M) return some<M - 1>(m, from, stride, to, to_stride, column);
        Vec<Real> acc[M][N];
        const Real* a[M];
        for (int r = 0; r < M; ++r) {
            a[r] = from + r * stride;
            for (int j = 0; j < N; ++j) acc[r][j] = Vec<Real>{};
        }
        multiply<Real, M, N>(acc, a, K, panels + column * K);
        for (int j = 0; j < N && column + j * V < outputs; ++j)
            for (int r = 0; r < M; ++r) store<Real>(to + r * to_stride + j * V, acc[r][j]);
    }
};

// Products of x with the weights, for a block of steps at a time.
template <class Real> class InputProducts {
    static constexpr int V = Lanes<Real>::n;

  public:
    explicit InputProducts(const RepresenterStringForward& args)
        : p(args), outputs(p.chain.products * p.units), N(vectors_of<Real>(outputs)), few(p.time * p.batch <= FEW),
          packed(few ? 0 : round_up(outputs, N * V) * p.features, false) {
        if (!few) pack_outputs(static_cast<const Real*>(p.input_weight), 1, outputs, p.features, N, packed.at(0));
    }

    void run(int64_t row, int64_t rows, Real* z) const {
        const Real* x = static_cast<const Real*>(p.x) + row * p.features;
        if (few) return by_dots(x, rows, z);
        const RepresenterProduct q{rows, outputs, p.features, p.threads, x, nullptr, z, p.features};
        const int64_t threads = p.threads < rows ? p.threads : rows;
        parallel_for(threads, threads, [&](int64_t i) {
            const int64_t first = share(rows, threads, i), last = share(rows, threads, i + 1);
            product_rows(q, N, packed.at(0), first, last);
        });
    }

  private:
    const RepresenterStringForward& p;
    const int64_t outputs;
    const int N;
    const bool few;  // too few rows to make packing the weights worthwhile
    Workspace<Real> packed;

    void by_dots(const Real* x, int64_t rows, Real* z) const {
        const Real* weight = static_cast<const Real*>(p.input_weight);
        for (int64_t o = 0; o < outputs; o += V) {
            const int count = outputs - o < V ? int(outputs - o) : V;
            for (int64_t r = 0; r < rows; ++r) {
                Vec<Real> partial[V] = {};
                for (int i = 0; i < count; ++i) partial[i] = dot<Real>(weight + (o + i) * p.features, x + r * p.features, p.features);
                store(z + r * outputs + o, sums<Real>(partial), count);
            }
        }
    }
};

template <class Real> class StringForward {
    static constexpr int V = Lanes<Real>::n;

  public:
    StringForward(const RepresenterStringForward& args)
        : p(args), B(p.batch), H(p.units), padded(round_up(H, 16)), P(p.chain.products), S(p.chain.states),
          n(p.chain.order), sees(p.chain.decay == STATE_GATE), state(B * S * padded),
          fed(sees ? B * padded : 0), seen(sees ? B * padded : 0), panels(sees ? round_up(H, 4 * V) * H : 0, false),
          bands(B, H, p.threads, BAND_BYTES / int64_t(sizeof(Real)) / S, sees) {
        for (int64_t i = 0; i < B * S; ++i)
            std::memcpy(state.at(i * padded), static_cast<const Real*>(p.c0) + i * H, H * sizeof(Real));
        if (!sees) return;
        pack_outputs(static_cast<const Real*>(p.weight), 1, H, H, 4, panels.at(0));
        for (int64_t b = 0; b < B; ++b)
            for (int64_t j = 0; j < H; ++j)
                fed.at(b * padded)[j] = static_cast<const Real*>(p.h0)[b * H + j] * (p.mask ? static_cast<const Real*>(p.mask)[b * H + j] : Real(1));
    }

    // Process steps [start, start + steps), whose products start at z.
    void run(int64_t start, int64_t steps, const Real* z) const {
        const int64_t count = bands.count();
        parallel_for(count, p.threads, [&](int64_t band) { run_band(band, start, steps, z); });
    }

    void finish() const {
        for (int64_t i = 0; i < B * S; ++i)
            std::memcpy(static_cast<Real*>(p.c) + i * H, state.at(i * padded), H * sizeof(Real));
        for (int64_t b = 0; b < B; ++b) {
            const int64_t length = p.lengths ? p.lengths[b] : p.time, t = p.reverse ? 0 : length - 1;
            const Real* h = length ? static_cast<const Real*>(p.output) + (t * B + b) * H : static_cast<const Real*>(p.h0) + b * H;
            std::memcpy(static_cast<Real*>(p.h) + b * H, h, H * sizeof(Real));
        }
    }

  private:
    const RepresenterStringForward& p;
    const int64_t B, H, padded, P, S, n;
    const bool sees;
    Workspace<Real> state, fed, seen, panels;  // fed: k * h_{t-1};  seen: V (k * h_{t-1})
    const Bands bands;

    void run_band(int64_t band, int64_t start, int64_t steps, const Real* z) const {
        const int64_t first = bands.first(band), last = bands.last(band), unit = bands.unit(band), end = bands.end(band);
        for (int64_t s = 0; s < steps; ++s) {
            const int64_t local = p.reverse ? steps - 1 - s : s, t = start + local;
            if (sees)
                RowsByPanels<Real, 4>(panels.at(0), H, H).run(fed.at(first * padded), padded, last - first, seen.at(first * padded), padded);
            for (int64_t b = first; b < last; ++b) {
                const Real* z_row = z + (local * B + b) * P * H;
                Real* kept = p.products ? static_cast<Real*>(p.products) + (t * B + b) * P * H : nullptr;
                if (!p.lengths || t < p.lengths[b])
                    row(t, b, unit, end, z_row, kept);
                else
                    skip(t, b, unit, end, z_row, kept);
            }
        }
    }

    // Past the end of a sequence the output is 0 and the state is unchanged.
    void skip(int64_t t, int64_t b, int64_t unit, int64_t end, const Real* z, Real* kept) const {
        const int64_t bytes = (end - unit) * sizeof(Real);
        std::memset(static_cast<Real*>(p.output) + (t * B + b) * H + unit, 0, bytes);
        for (int64_t k = 0; kept && kept != z && k < P; ++k) std::memcpy(kept + k * H + unit, z + k * H + unit, bytes);
        for (int64_t k = 0; p.states && k < S; ++k)
            std::memcpy(static_cast<Real*>(p.states) + ((t * B + b) * S + k) * H + unit, state.at((b * S + k) * padded) + unit, bytes);
    }

    void row(int64_t t, int64_t b, int64_t unit, int64_t end, const Real* z, Real* kept) const {
        if constexpr (sizeof(Real) == 4) switch (n) {  // float64 uses the generic code, to save compile time
                case 1: return row_of<1>(t, b, unit, end, z, kept);
                case 2: return row_of<2>(t, b, unit, end, z, kept);
                case 3: return row_of<3>(t, b, unit, end, z, kept);
            }
        row_of<0>(t, b, unit, end, z, kept);
    }
    // ORDER is n if known at compile time, else 0.
    template <int ORDER>
    __attribute__((noinline)) void row_of(int64_t t, int64_t b, int64_t unit, int64_t end, const Real* z, Real* kept) const {
        const int64_t n = ORDER ? ORDER : this->n;
        const RepresenterChain chain = p.chain;
        const bool mass = has_mass(chain), copies = kept && kept != z;
        const int64_t first_biased = P - p.biased;
        const Real *bias = static_cast<const Real*>(p.bias), *decay = static_cast<const Real*>(p.decay);
        const Real* mask = p.mask ? static_cast<const Real*>(p.mask) + b * H : nullptr;
        const Real* carry = p.carry ? static_cast<const Real*>(p.carry) + (t * B + b) * H : nullptr;
        const Real* extra = sees ? seen.at(b * padded) : nullptr;
        Real *own = state.at(b * S * padded), *out = static_cast<Real*>(p.output) + (t * B + b) * H;
        Real* states = p.states ? static_cast<Real*>(p.states) + (t * B + b) * S * H : nullptr;
        const auto product = [&](int64_t k, int64_t j, int count) {
            const Vec<Real> value = load(z + k * H + j, count);
            return k < first_biased ? value : value + load(bias + (k - first_biased) * H + j, count);
        };
        for (int64_t j = unit; j < end; j += V) {
            const int count = end - j < V ? int(end - j) : V;
            Vec<Real> lam;
            if (chain.decay >= GATE) {
                lam = product(n, j, count);
                if (extra) lam += load<Real>(extra + j);
                lam = sigmoid<Real>(lam);
                if (kept) store(kept + n * H + j, lam, count);
            } else {
                lam = chain.decay == ONE_DECAY ? splat(*decay) : load(decay + j, count);
            }
            const Vec<Real> w = chain.normalized == PAPER ? Real(1) - lam : splat<Real>(1);
            Vec<Real> s{};
#pragma GCC unroll 3
            for (int64_t k = n - 1; k >= 0; --k) {  // descending: reads the values of the previous step
                Vec<Real> joined = product(k, j, count), m{};
                if (kept && (copies || k >= first_biased)) store(kept + k * H + j, joined, count);
                Real *c_k = own + k * padded + j, *m_k = own + (n + k) * padded + j;
                const Vec<Real> lighter = mass && k ? load<Real>(m_k - padded) : splat<Real>(1);
                if (k) {
                    const Vec<Real> shorter = load<Real>(c_k - padded);
                    joined = chain.combine == MULTIPLY ? shorter * joined
                             : chain.combine == ADD    ? shorter + joined
                                                       : shorter + lighter * joined;
                }
                const Vec<Real> c = lam * load<Real>(c_k) + w * joined;
                store<Real>(c_k, c);
                if (mass) store<Real>(m_k, m = lam * load<Real>(m_k) + w * lighter);
                if (states) store(states + k * H + j, c, count);
                if (states && mass) store(states + (n + k) * H + j, m, count);
                if (chain.sums || k == n - 1) s += chain.normalized == EXACT ? by_mass<Real>(c, m) : c;
            }
            Vec<Real> h = value<Real>(chain.activation, s);
            if (chain.highway) {
                const Vec<Real> gate = sigmoid<Real>(product(P - 1, j, count)), x = load(carry + j, count);
                if (kept) store(kept + (P - 1) * H + j, gate, count);
                if (mask) h *= load(mask + j, count);
                h = x + gate * (h - x);
            }
            store(out + j, h, count);
            if (extra) store<Real>(fed.at(b * padded) + j, mask ? h * load(mask + j, count) : h);
        }
    }
};

template <class Real> int string_forward(const RepresenterStringForward& p) {
    if (!p.batch) return 0;
    const StringForward<Real> scan(p);
    if (!p.input_weight) {
        scan.run(0, p.time, static_cast<const Real*>(p.x));
    } else {
        const InputProducts<Real> products(p);
        const int64_t width = p.chain.products * p.units, tall = 2 * BLOCK * p.threads;
        const int64_t fitting = tall / p.batch > 1 ? tall / p.batch : 1, most = fitting < p.time ? fitting : p.time;
        const int64_t blocks = (p.time + most - 1) / most;
        Workspace<Real> buffer(p.products ? 0 : most * p.batch * width, false);
        for (int64_t i = 0; i < blocks; ++i) {
            const int64_t block = p.reverse ? blocks - 1 - i : i;
            const int64_t start = share(p.time, blocks, block), steps = share(p.time, blocks, block + 1) - start;
            Real* z = p.products ? static_cast<Real*>(p.products) + start * p.batch * width : buffer.at(0);
            products.run(start * p.batch, steps * p.batch, z);
            scan.run(start, steps, z);
        }
    }
    scan.finish();
    return 0;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
