// gated_scan: c_t = f_t c_{t-1} + u_t, independently for each batch entry and unit; memory-bound.
#pragma once

#include "core.hpp"
#include "parallel.hpp"
#include "vec.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

// Process the batch in bands (a block of rows by a block of units) over all steps: wide enough for
// long contiguous accesses, small enough that the state stays in L2. In the backward pass u holds
// the gradients of the states, and g_t = u_t + f_{t+1} g_{t+1} runs in reverse, with the factor of
// the step visited before; the gradient of f_t is g_t c_{t-1}.
template <class Real, bool BACKWARD> class Scan {
    static constexpr int V = Lanes<Real>::n;
    static constexpr int64_t STATE = 65536 / sizeof(Real);  // entries of a band

  public:
    explicit Scan(const RepresenterScan& args) : p(args), H(args.units) {
        const int64_t parts = p.threads > 1 ? p.threads : 1;
        const int64_t fair = (p.batch * H + parts - 1) / parts, most = fair < STATE ? fair : STATE;
        rows = most / H > 1 ? most / H : 1;
        units = rows > 1 || most >= H ? H : (most + V - 1) / V * V;
        across = (H + units - 1) / units;
    }

    int64_t bands() const { return (p.batch + rows - 1) / rows * across; }

    void run(int64_t band) const {
        if (p.decay == 2) return BACKWARD && p.grad_f ? run<true, true>(band) : run<true, false>(band);
        return BACKWARD && p.grad_f ? run<false, true>(band) : run<false, false>(band);
    }

  private:
    const RepresenterScan& p;
    const int64_t H;
    int64_t rows, units, across;  // rows and units of a band; number of bands across the units

    static const Real* in(const void* array) { return static_cast<const Real*>(array); }
    static Real* out(void* array) { return static_cast<Real*>(array); }

    // EACH: the decay differs from step to step. OF_F: compute its gradient.
    template <bool EACH, bool OF_F> void run(int64_t band) const {
        const int64_t first = band / across * rows, last = first + rows < p.batch ? first + rows : p.batch;
        const int64_t j0 = band % across * units, wide = H - j0 < units ? H - j0 : units;
        const bool merged = EACH && wide == H && !p.lengths;  // whole rows are one row of more entries
        const int64_t lines = merged ? 1 : last - first, width = merged ? (last - first) * H : wide;
        const int64_t padded = (width + V - 1) / V * V;
        const Workspace<Real> own((EACH ? lines : OF_F ? 2 * lines + 1 : lines + 1) * padded);
        Real *const state = own.at(0), *const decay = own.at(lines * padded), *const total = own.at((lines + 1) * padded);
        for (int64_t j = 0; !EACH && j < wide; ++j) decay[j] = in(p.f)[p.decay ? j0 + j : 0];
        const auto place = [&](int64_t b) { return merged ? (b - first) * H : (b - first) * padded; };
        for (int64_t b = first; b < last; ++b)
            std::memcpy(state + place(b), in(p.c0) + b * H + j0, wide * sizeof(Real));
        const bool down = bool(p.reverse) != BACKWARD;
        for (int64_t s = 0; s < p.time; ++s) {
            const int64_t t = down ? p.time - 1 - s : s;
            for (int64_t line = 0; line < lines; ++line) {
                const int64_t b = first + line, at = (t * p.batch + b) * H + j0, length = p.lengths ? p.lengths[b] : p.time;
                if (t < length) {
                    step<EACH, OF_F>(at, width, state + line * padded, decay, total + line * padded, OF_F ? before(t, b, j0, length) : nullptr);
                } else {
                    std::memset(out(p.states) + at, 0, width * sizeof(Real));
                    if (EACH && OF_F) std::memset(out(p.grad_f) + at, 0, width * sizeof(Real));
                }
            }
        }
        for (int64_t b = first; b < last; ++b) {
            std::memcpy(out(p.final_state) + b * H + j0, state + place(b), wide * sizeof(Real));
            if (!EACH && OF_F) std::memcpy(out(p.grad_f) + b * H + j0, total + place(b), wide * sizeof(Real));
        }
    }

    // Return c_{t-1}, in the order of the forward pass.
    const Real* before(int64_t t, int64_t b, int64_t j0, int64_t length) const {
        const int64_t earlier = p.reverse ? t + 1 : t - 1;
        const bool is_first = p.reverse ? earlier >= length : earlier < 0;
        return is_first ? in(p.first) + b * H + j0 : in(p.kept) + (earlier * p.batch + b) * H + j0;
    }

    template <bool EACH, bool OF_F>
    REPRESENTER_INLINE void step(int64_t at, int64_t width, Real* state, const Real* decay, Real* total, const Real* old) const {
        const Real *u = in(p.u) + at, *f = EACH ? in(p.f) + at : decay;
        Real *states = out(p.states) + at, *of_f = EACH && OF_F ? out(p.grad_f) + at : nullptr;
        for (int64_t j = 0; j < width; j += V) {  // one copy of the arithmetic, so that rounding does not depend on the band
            const int count = width - j < V ? int(width - j) : V;
            const Vec<Real> factor = load(f + j, count), added = load(u + j, count);
            Vec<Real> c = load<Real>(state + j);
            c = BACKWARD ? c + added : factor * c + added;
            store(states + j, c, count);
            store<Real>(state + j, BACKWARD ? c * factor : c);
            if (!OF_F) continue;
            const Vec<Real> d = c * load(old + j, count);
            EACH ? store(of_f + j, d, count) : store<Real>(total + j, load<Real>(total + j) + d);
        }
    }
};

template <class Real, bool BACKWARD> int scan(const RepresenterScan& p) {
    if (!p.batch || !p.units) return 0;
    const int64_t entries = p.time * p.batch * p.units;
    use_large_pages(static_cast<Real*>(p.states), entries);
    if (BACKWARD && p.decay == 2) use_large_pages(static_cast<Real*>(p.grad_f), entries);
    const Scan<Real, BACKWARD> all(p);
    const int64_t bands = all.bands();
    parallel_for(bands, p.threads, [&](int64_t band) { all.run(band); });
    return 0;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
