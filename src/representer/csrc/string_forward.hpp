// string_scan forward. The input products are computed for a block of steps at a time into a
// cache-resident buffer; one pass over the buffer advances the states, which stay in the cache too.
//
// The equations are those of representer/functional/strings.py. Unless the decay depends on h, all
// units and sequences are independent, and threads split both; otherwise they split the batch.
#pragma once

#include "string_flat.hpp"
#include "string_products.hpp"
#include "string_terms.hpp"

namespace representer {
namespace REPRESENTER_ISA {

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

template <class Real> class StringForward {
    static constexpr int V = Lanes<Real>::n;

  public:
    StringForward(const RepresenterStringForward& args)
        : p(args), B(p.batch), H(p.units), padded(round_up(H, 16)), P(p.chain.products), S(p.chain.states),
          n(p.chain.order), sees(p.chain.decay == STATE_GATE), state(B * S * padded),
          fed(sees ? B * padded : 0), seen(sees ? B * padded : 0), weights(args), own(p.packed ? 0 : weights.of_state, false),
          panels(p.packed ? static_cast<const Real*>(p.packed) + weights.of_input : own.at(0)),
          bands(B, H, p.threads, BAND_BYTES / int64_t(sizeof(Real)) / S, sees) {
        for (int64_t i = 0; i < B * S; ++i)
            std::memcpy(state.at(i * padded), static_cast<const Real*>(p.c0) + i * H, H * sizeof(Real));
        if (!sees) return;
        if (!p.packed) weights.pack_state(own.at(0));
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
    Workspace<Real> state, fed, seen;  // fed: k * h_{t-1};  seen: V (k * h_{t-1})
    const PackedChain<Real> weights;
    const Workspace<Real> own;
    const Real* const panels;
    const Bands bands;

    void run_band(int64_t band, int64_t start, int64_t steps, const Real* z) const {
        const int64_t first = bands.first(band), last = bands.last(band), unit = bands.unit(band), end = bands.end(band);
        for (int64_t s = 0; s < steps; ++s) {
            const int64_t local = p.reverse ? steps - 1 - s : s, t = start + local;
            if (sees)
                RowsByPanels<Real, STATE_VECTORS>(panels, H, H).run(fed.at(first * padded), padded, last - first, seen.at(first * padded), padded);
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
        const bool copies = kept && kept != z;
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
            const auto joining = [&](int64_t k) {
                const Vec<Real> value = product(k, j, count);
                if (kept && (copies || k >= first_biased)) store(kept + k * H + j, value, count);
                return value;
            };
            const auto keep = [&](int64_t k, Vec<Real> state) {
                if (states) store(states + k * H + j, state, count);
            };
            Vec<Real> h = advance<Real, ORDER>(chain, lam, own + j, padded, joining, keep);
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
    const int64_t entries = p.time * p.batch * p.units;
    use_large_pages(static_cast<Real*>(p.output), entries);
    use_large_pages(static_cast<Real*>(p.products), entries * p.chain.products);
    use_large_pages(static_cast<Real*>(p.states), entries * p.chain.states);
    if (FlatString<Real>::fits(p)) return FlatString<Real>(p).run(), 0;
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
