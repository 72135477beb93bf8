// string_scan forward of few units, with nothing kept for a backward pass. The units of all sequences are one row of
// entries, so that no lane of a vector idles and no load is masked; the products are laid out in the same way.
//
// Chunks of sequences, which threads split, run through all steps: their states stay in the first cache.
#pragma once

#include "string_products.hpp"
#include "string_terms.hpp"

namespace representer {
namespace REPRESENTER_ISA {

template <class Real> class FlatString {
    static constexpr int V = Lanes<Real>::n;
    static constexpr int64_t MOST_UNITS = 64, ENTRIES = 1536, STEP_ROWS = 48;  // of a chunk, and rows of x of a block of steps

  public:
    static bool fits(const RepresenterStringForward& p) {
        return p.units <= MOST_UNITS && (p.time > 1 || p.batch > FEW) && p.input_weight && p.chain.decay != STATE_GATE &&
               !p.products && !p.states && !p.lengths && !p.mask && !p.packed;
    }

    explicit FlatString(const RepresenterStringForward& args)
        : p(args), H(p.units), P(p.chain.products), S(p.chain.states), n(p.chain.order), N(vectors_of<Real>(H)),
          panel(round_up(H, N * V) * p.features), packed(P * panel, false) {
        for (int64_t k = 0; k < P; ++k)
            pack_outputs(static_cast<const Real*>(p.input_weight) + k * H * p.features, 1, H, p.features, N, packed.at(k * panel), p.threads);
    }

    void run() const {
        const int64_t fair = (p.batch + p.threads - 1) / p.threads, fitting = ENTRIES / H, most = fair < fitting ? fair : fitting;
        const int64_t chunks = (p.batch + most - 1) / most;
        parallel_for(chunks, p.threads, [&](int64_t i) {
            const int64_t first = share(p.batch, chunks, i);
            chunk(first, share(p.batch, chunks, i + 1) - first);
        });
    }

  private:
    const RepresenterStringForward& p;
    const int64_t H, P, S, n;
    const int N;
    const int64_t panel;
    const Workspace<Real> packed;

    struct Arrays {
        Real *state, *bias, *decay;  // (S, padded), (biased, padded), (padded)
        int64_t padded;
    };

    void chunk(int64_t first, int64_t rows) const {
        const int64_t entries = rows * H, padded = round_up(entries, V);
        const int64_t in_a_row = rows == p.batch ? STEP_ROWS / rows : 1, steps = in_a_row > 1 ? in_a_row : 1;
        // one vector more, since that of the last step may begin in the last vector of the products
        const Workspace<Real> own((S + p.biased + 1) * padded), z(P * round_up(steps * entries, V) + V, false);
        const Arrays to{own.at(0), own.at(S * padded), own.at((S + p.biased) * padded), padded};
        for (int64_t r = 0; r < rows; ++r) {
            for (int64_t k = 0; k < S; ++k)
                std::memcpy(to.state + k * padded + r * H, static_cast<const Real*>(p.c0) + ((first + r) * S + k) * H, H * sizeof(Real));
            for (int64_t k = 0; k < p.biased; ++k)
                std::memcpy(to.bias + k * padded + r * H, static_cast<const Real*>(p.bias) + k * H, H * sizeof(Real));
            if (p.chain.decay == DECAY_OF_UNIT) std::memcpy(to.decay + r * H, p.decay, H * sizeof(Real));
        }
        const int64_t stride = round_up(steps * entries, V);
        for (int64_t s = 0; s < p.time; s += steps) {
            const int64_t count = p.time - s < steps ? p.time - s : steps, start = p.reverse ? p.time - s - count : s;
            const Real* x = static_cast<const Real*>(p.x) + (start * p.batch + first) * p.features;
            for (int64_t k = 0; k < P; ++k)
                product_rows(RepresenterProduct{count * rows, H, p.features, 1, x, nullptr, z.at(k * stride), p.features}, N,
                             packed.at(k * panel), 0, count * rows);
            for (int64_t i = 0; i < count; ++i) {
                const int64_t local = p.reverse ? count - 1 - i : i;
                step(start + local, first, entries, z.at(local * entries), stride, to);
            }
        }
        const int64_t last = p.reverse ? 0 : p.time - 1;
        std::memcpy(static_cast<Real*>(p.h) + first * H, static_cast<const Real*>(p.output) + (last * p.batch + first) * H, entries * sizeof(Real));
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t k = 0; k < S; ++k)
                std::memcpy(static_cast<Real*>(p.c) + ((first + r) * S + k) * H, to.state + k * padded + r * H, H * sizeof(Real));
    }

    void step(int64_t t, int64_t first, int64_t entries, const Real* z, int64_t stride, const Arrays& at) const {
        if constexpr (sizeof(Real) == 4) switch (n) {  // float64 uses the generic code, to save compile time
                case 1: return step_of<1>(t, first, entries, z, stride, at);
                case 2: return step_of<2>(t, first, entries, z, stride, at);
                case 3: return step_of<3>(t, first, entries, z, stride, at);
            }
        step_of<0>(t, first, entries, z, stride, at);
    }

    template <int ORDER>
    __attribute__((noinline)) void step_of(int64_t t, int64_t first, int64_t entries, const Real* z, int64_t stride, const Arrays& at) const {
        const int64_t n = ORDER ? ORDER : this->n;
        const RepresenterChain chain = p.chain;
        const int64_t from = (t * p.batch + first) * H;
        Real* out = static_cast<Real*>(p.output) + from;
        const int64_t first_biased = P - p.biased;
        const Real* carry = chain.highway ? static_cast<const Real*>(p.carry) + from : nullptr;
        for (int64_t e = 0; e < entries; e += V) {
            const int count = entries - e < V ? int(entries - e) : V;
            // whole vectors: the products end in those of the next step or in padding
            const auto product = [&](int64_t k) {
                const Vec<Real> value = load<Real>(z + k * stride + e);
                return k < first_biased ? value : value + load<Real>(at.bias + (k - first_biased) * at.padded + e);
            };
            const Vec<Real> lam = chain.decay == GATE        ? sigmoid<Real>(product(n))
                                  : chain.decay == ONE_DECAY ? splat(*static_cast<const Real*>(p.decay))
                                                             : load<Real>(at.decay + e);
            const auto keep = [](int64_t, Vec<Real>) {};
            Vec<Real> h = advance<Real, ORDER>(chain, lam, at.state + e, at.padded, product, keep);
            if (carry) {
                const Vec<Real> x = load(carry + e, count);
                h = x + sigmoid<Real>(product(P - 1)) * (h - x);
            }
            store(out + e, h, count);
        }
    }
};

}  // namespace REPRESENTER_ISA
}  // namespace representer
