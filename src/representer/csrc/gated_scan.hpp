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
// the step visited before.
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
        switch (p.decay) {
            case 0: return run<0>(band);
            case 1: return run<1>(band);
            default: return run<2>(band);
        }
    }

  private:
    const RepresenterScan& p;
    const int64_t H;
    int64_t rows, units, across;  // rows and units of a band; number of bands across the units

    template <int DECAY> void run(int64_t band) const {
        const int64_t first = band / across * rows, last = first + rows < p.batch ? first + rows : p.batch;
        const int64_t j0 = band % across * units, wide = H - j0 < units ? H - j0 : units;
        const int64_t padded = (wide + V - 1) / V * V;
        Workspace<Real> state((last - first) * padded);
        for (int64_t b = first; b < last; ++b)
            for (int64_t j = 0; j < wide; ++j) state.at((b - first) * padded)[j] = static_cast<const Real*>(p.c0)[b * H + j0 + j];
        const bool down = bool(p.reverse) != BACKWARD;
        for (int64_t s = 0; s < p.time; ++s) {
            const int64_t t = down ? p.time - 1 - s : s;
            for (int64_t b = first; b < last; ++b)
                row<DECAY>((t * p.batch + b) * H + j0, j0, wide, !p.lengths || t < p.lengths[b], state.at((b - first) * padded));
        }
        for (int64_t b = first; b < last; ++b)
            std::memcpy(static_cast<Real*>(p.final_state) + b * H + j0, state.at((b - first) * padded), wide * sizeof(Real));
    }

    template <int DECAY> REPRESENTER_INLINE void row(int64_t at, int64_t j0, int64_t wide, bool real, Real* state) const {
        Real* states = static_cast<Real*>(p.states) + at;
        if (!real) {
            std::memset(states, 0, wide * sizeof(Real));
            return;
        }
        const Real *u = static_cast<const Real*>(p.u) + at, *f = static_cast<const Real*>(p.f);
        f += DECAY == 0 ? 0 : DECAY == 1 ? j0 : at;
        for (int64_t j = 0; j < wide; j += V) {
            const int count = wide - j < V ? int(wide - j) : V;
            const Vec<Real> decay = DECAY == 0 ? splat(*f) : load(f + j, count);
            Vec<Real> c = load<Real>(state + j);
            const Vec<Real> added = load(u + j, count);
            c = BACKWARD ? c + added : decay * c + added;
            store(states + j, c, count);
            store<Real>(state + j, BACKWARD ? c * decay : c);
        }
    }
};

template <class Real, bool BACKWARD> int scan(const RepresenterScan& p) {
    if (!p.batch || !p.units) return 0;
    const Scan<Real, BACKWARD> all(p);
    const int64_t bands = all.bands();
    parallel_for(bands, p.threads, [&](int64_t band) { all.run(band); });
    return 0;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
