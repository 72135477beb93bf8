// gated_scan: c_t = f_t c_{t-1} + u_t, every column of the batch for itself, at the speed of memory.
#pragma once

#include "core.hpp"
#include "vec.hpp"

namespace representer {
namespace REPRESENTER_ISA {

// One row of the batch over all steps. In the backward pass u holds the states' gradients, and
// g_t = u_t + f_{t+1} g_{t+1} runs the other way, with the factor of the step just left behind.
template <class Real, bool BACKWARD> void scan_row(const RepresenterScan& p, int64_t b) {
    constexpr int V = Lanes<Real>::n;
    const int64_t H = p.units, step = p.batch * H, row = b * H;
    const Real *u = static_cast<const Real*>(p.u) + row, *f = static_cast<const Real*>(p.f);
    Real* states = static_cast<Real*>(p.states) + row;
    const int64_t length = !p.lengths ? p.time : p.lengths[b] < p.time ? p.lengths[b] : p.time;
    const bool down = bool(p.reverse) != BACKWARD;
    for (int64_t j = 0; j < H; j += V) {
        const int count = H - j < V ? int(H - j) : V;
        Vec<Real> c = load(static_cast<const Real*>(p.c0) + row + j, count);
        Vec<Real> decay = p.decay == 0 ? splat(*f) : p.decay == 1 ? load(f + j, count) : Vec<Real>{};
        for (int64_t s = 0; s < p.time; ++s) {
            const int64_t t = down ? p.time - 1 - s : s;
            if (t >= length) {
                store(states + t * step + j, Vec<Real>{}, count);
                continue;
            }
            if (p.decay == 2) decay = load(f + row + t * step + j, count);
            const Vec<Real> added = load(u + t * step + j, count);
            c = BACKWARD ? c + added : decay * c + added;
            store(states + t * step + j, c, count);
            if (BACKWARD) c *= decay;
        }
        store(static_cast<Real*>(p.final_state) + row + j, c, count);
    }
}

template <class Real, bool BACKWARD> int scan(const RepresenterScan& p) {
#pragma omp parallel for num_threads(p.threads) if (p.threads > 1) schedule(static)
    for (int64_t b = 0; b < p.batch; ++b) scan_row<Real, BACKWARD>(p, b);
    return 0;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
