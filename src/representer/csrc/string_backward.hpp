// string_scan backward: a single pass from the last step to the first. The equations are those of
// representer/ops/string_scan/reference.py.
//
// Products with the whole sequence (gradients of weights and inputs) are left to the caller.
#pragma once

#include "few_products.hpp"
#include "string_forward.hpp"

namespace representer {
namespace REPRESENTER_ISA {

template <class Real, int ORDER> class StringBackward {
    static constexpr int V = Lanes<Real>::n;

  public:
    StringBackward(const RepresenterStringBackward& args)
        : p(args), B(p.batch), H(p.units), padded(round_up(H, 16)), P(p.chain.products), S(p.chain.states),
          n(ORDER ? ORDER : p.chain.order), sees(p.chain.decay == STATE_GATE && p.time > 1), to_c(B * S * padded), to_h(B * padded),
          of_decay(p.grad_decay ? B * padded : 0), fed(sees ? B * padded : 0),
          panels(sees ? round_up(H, 4 * V) * H : 0, false),
          bands(B, H, p.threads, BAND_BYTES / int64_t(sizeof(Real)) / S, sees) {
        if (sees) pack_columns(static_cast<const Real*>(p.weight), H, H, 4, panels.at(0), p.threads);
        for (int64_t i = 0; p.grad_c && i < B * S; ++i)
            std::memcpy(to_c.at(i * padded), static_cast<const Real*>(p.grad_c) + i * H, H * sizeof(Real));
        for (int64_t b = 0; p.grad_h && b < B; ++b)
            std::memcpy(to_h.at(b * padded), static_cast<const Real*>(p.grad_h) + b * H, H * sizeof(Real));
    }

    void run() const {
        const int64_t count = bands.count();
        parallel_for(count, p.threads, [&](int64_t band) { run_band(band); });
        for (int64_t i = 0; i < B * S; ++i)
            std::memcpy(static_cast<Real*>(p.grad_c0) + i * H, to_c.at(i * padded), H * sizeof(Real));
        for (int64_t b = 0; b < B; ++b) {
            std::memcpy(static_cast<Real*>(p.extra_h) + b * H, to_h.at(b * padded), H * sizeof(Real));
            if (p.grad_decay) std::memcpy(static_cast<Real*>(p.grad_decay) + b * H, of_decay.at(b * padded), H * sizeof(Real));
        }
    }

  private:
    const RepresenterStringBackward& p;
    const int64_t B, H, padded, P, S, n;
    const bool sees;
    Workspace<Real> to_c, to_h, of_decay, fed, panels;  // to_c, to_h: gradients from later steps;  fed: V' da of the following step
    const Bands bands;

    bool is_real(int64_t t, int64_t b) const { return !p.lengths || t < p.lengths[b]; }

    void run_band(int64_t band) const {
        const int64_t first = bands.first(band), last = bands.last(band), unit = bands.unit(band), end = bands.end(band);
        for (int64_t s = p.time - 1; s >= 0; --s) {
            const int64_t t = p.reverse ? p.time - 1 - s : s, later = p.reverse ? t - 1 : t + 1;
            if (sees && s < p.time - 1) {
                const Real* da = static_cast<const Real*>(p.grad_z) + ((later * B + first) * P + n) * H;
                RowsByPanels<Real, 4>(panels.at(0), H, H).run(da, P * H, last - first, fed.at(first * padded), padded);
                for (int64_t b = first; b < last; ++b) feed(b);
            }
            for (int64_t b = first; b < last; ++b)
                if (is_real(t, b))
                    row(t, b, unit, end);
                else
                    skip(t, b, unit, end);
        }
    }

    void feed(int64_t b) const {
        const Real* mask = p.mask ? static_cast<const Real*>(p.mask) + b * H : nullptr;
        Real* into = to_h.at(b * padded);
        for (int64_t j = 0; j < H; j += V) {
            const int count = H - j < V ? int(H - j) : V;
            const Vec<Real> of_h = load<Real>(fed.at(b * padded) + j);
            store<Real>(into + j, load<Real>(into + j) + (mask ? of_h * load(mask + j, count) : of_h));
        }
    }

    // Gradients past the end of a sequence are 0.
    void skip(int64_t t, int64_t b, int64_t unit, int64_t end) const {
        const int64_t bytes = (end - unit) * sizeof(Real);
        for (int64_t k = 0; k < P; ++k) std::memset(static_cast<Real*>(p.grad_z) + ((t * B + b) * P + k) * H + unit, 0, bytes);
        if (p.grad_carry) std::memset(static_cast<Real*>(p.grad_carry) + (t * B + b) * H + unit, 0, bytes);
    }

    const Real* before(int64_t t, int64_t b) const {
        const int64_t earlier = p.reverse ? t + 1 : t - 1;
        const bool is_first = p.reverse ? earlier == p.time || !is_real(earlier, b) : earlier < 0;
        return is_first ? static_cast<const Real*>(p.c0) + b * S * H : static_cast<const Real*>(p.states) + (earlier * B + b) * S * H;
    }

    void row(int64_t t, int64_t b, int64_t unit, int64_t end) const {
        const RepresenterChain chain = p.chain;
        const bool mass = has_mass(chain), exact = chain.normalized == EXACT, paper = chain.normalized == PAPER;
        const Real *z = static_cast<const Real*>(p.products) + (t * B + b) * P * H, *decay = static_cast<const Real*>(p.decay);
        const Real *after = static_cast<const Real*>(p.states) + (t * B + b) * S * H, *old = before(t, b);
        const Real* grad = static_cast<const Real*>(p.grad_output) + t * p.grad_time + b * p.grad_batch;
        const Real* mask = p.mask ? static_cast<const Real*>(p.mask) + b * H : nullptr;
        const Real* carry = p.carry ? static_cast<const Real*>(p.carry) + (t * B + b) * H : nullptr;
        Real *dz = static_cast<Real*>(p.grad_z) + (t * B + b) * P * H, *g_state = to_c.at(b * S * padded), *extra = to_h.at(b * padded);
        Real* of_carry = p.grad_carry ? static_cast<Real*>(p.grad_carry) + (t * B + b) * H : nullptr;
        const int64_t first_read = chain.sums ? 0 : n - 1;
        for (int64_t j = unit; j < end; j += V) {
            const int count = end - j < V ? int(end - j) : V;
            const Vec<Real> e = load(grad + j, count) + load<Real>(extra + j);
            store<Real>(extra + j, Vec<Real>{});
            Vec<Real> s{};
            for (int64_t k = first_read; k < n; ++k) {
                const Vec<Real> c = load(after + k * H + j, count);
                s += exact ? by_mass<Real>(c, load(after + (n + k) * H + j, count)) : c;
            }
            const Vec<Real> y = value<Real>(chain.activation, s);
            Vec<Real> d = e * slope<Real>(chain.activation, s, y);
            if (chain.highway) {
                const Vec<Real> gate = load(z + (P - 1) * H + j, count), k = mask ? load(mask + j, count) : splat<Real>(1);
                const Vec<Real> shut = e * (Real(1) - gate);
                store(dz + (P - 1) * H + j, shut * gate * (k * y - load(carry + j, count)), count);
                store(of_carry + j, shut, count);
                d *= gate * k;
            }
            for (int64_t k = first_read; k < n; ++k) {  // gradients of the states of this step
                Real *g_k = g_state + k * padded + j, *q_k = g_state + (n + k) * padded + j;
                Vec<Real> of_state = d;
                if (exact) {
                    const Vec<Real> m = load(after + (n + k) * H + j, count);
                    of_state = by_mass<Real>(d, m);
                    store<Real>(q_k, load<Real>(q_k) - of_state * by_mass<Real>(load(after + k * H + j, count), m));
                }
                store<Real>(g_k, load<Real>(g_k) + of_state);
            }
            const Vec<Real> lam = chain.decay >= GATE         ? load(z + n * H + j, count)
                                  : chain.decay == ONE_DECAY ? splat(*decay)
                                                             : load(decay + j, count);
            const Vec<Real> w = paper ? Real(1) - lam : splat<Real>(1);
            Vec<Real> of_lam{}, shorter{}, lighter = splat<Real>(1), token = load(z + j, count);
#pragma GCC unroll 3
            for (int64_t k = 0; k < n; ++k) {  // back through the step
                Real *g_k = g_state + k * padded + j, *q_k = g_state + (n + k) * padded + j;
                const bool longer = k + 1 < n;
                const Vec<Real> g = load<Real>(g_k), c = load(old + k * H + j, count);
                const Vec<Real> next = longer ? load(z + (k + 1) * H + j, count) : Vec<Real>{};
                const Vec<Real> of_next = longer ? w * load<Real>(g_k + padded) : Vec<Real>{};
                Vec<Real> joined = token, factor = splat<Real>(1);
                if (k) {
                    factor = chain.combine == MULTIPLY ? shorter : chain.combine == ADD ? factor : lighter;
                    joined = chain.combine == MULTIPLY ? factor * token : shorter + factor * token;
                }
                of_lam += g * (paper ? c - joined : c);
                store(dz + k * H + j, w * g * factor, count);
                store<Real>(g_k, lam * g + (chain.combine == MULTIPLY ? of_next * next : of_next));
                if (mass) {
                    const Vec<Real> q = load<Real>(q_k), m = load(old + (n + k) * H + j, count);
                    of_lam += q * (paper ? m - lighter : m);
                    Vec<Real> before = lam * q;
                    if (longer) before += w * load<Real>(q_k + padded);
                    if (chain.combine == ADD_EXACT) before += of_next * next;
                    store<Real>(q_k, before);
                    lighter = m;
                }
                shorter = c, token = next;
            }
            if (chain.decay >= GATE) {
                store(dz + n * H + j, of_lam * lam * (Real(1) - lam), count);
            } else if (p.grad_decay) {
                Real* total = of_decay.at(b * padded) + j;
                store<Real>(total, load<Real>(total) + of_lam);
            }
        }
    }
};

template <class Real> int string_backward(const RepresenterStringBackward& p) {
    if (!p.batch) return 0;
    const int64_t entries = p.time * p.batch * p.units;
    use_large_pages(static_cast<Real*>(p.grad_z), entries * p.chain.products);
    use_large_pages(static_cast<Real*>(p.grad_carry), entries);
    if constexpr (sizeof(Real) == 4) switch (p.chain.order) {  // float64 uses the generic code, to save compile time
            case 1: return StringBackward<Real, 1>(p).run(), 0;
            case 2: return StringBackward<Real, 2>(p).run(), 0;
            case 3: return StringBackward<Real, 3>(p).run(), 0;
        }
    StringBackward<Real, 0>(p).run();
    return 0;
}

template <class Real> int string_few(const RepresenterFew& few) {
    const RepresenterStringForward& p = *static_cast<const RepresenterStringForward*>(few.call);
    const int64_t H = p.units, rows = p.time * p.batch, width = p.chain.products * H, seen = p.chain.decay == STATE_GATE ? H : 0;
    const Workspace<Real> dz(rows * width, false), spare((1 + p.chain.states) * p.batch * H, false);
    const Workspace<Real> of_carry(p.carry ? rows * H : 0, false), of_decay(few.grad_decay ? p.batch * H : 0, false);
    RepresenterStringBackward b{};
    read_few(b, p, few, dz.at(0), spare.at(0));
    b.chain = p.chain, b.products = p.products, b.states = p.states, b.decay = p.decay, b.carry = p.carry;
    b.grad_carry = of_carry.at(0), b.grad_decay = of_decay.at(0);
    string_backward<Real>(b);
    gradients_of_few(p, few, dz.at(0), width, p.chain.order * H, seen, p.batch * p.features, p.features);
    if (p.carry && few.grad_x)  // which is x
        for (int64_t i = 0; i < rows * H; ++i) static_cast<Real*>(few.grad_x)[i] += of_carry.at(0)[i];
    if (Real* to = static_cast<Real*>(few.grad_decay)) {
        const int64_t step = p.chain.decay == ONE_DECAY ? 0 : 1;
        std::memset(to, 0, (step ? H : 1) * sizeof(Real));
        for (int64_t i = 0; i < p.batch * H; ++i) to[i % H * step] += of_decay.at(0)[i];
    }
    return OK;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
