// kbrn_scan backward: the same blocks, from the last step to the first. What sums over all steps, the
// gradient of the recurrent matrix, is left to torch.
#pragma once

#include "kbrn_scan.hpp"

namespace representer {
namespace REPRESENTER_ISA {

template <class Real, class Curve> class KbrnBackward : Kbrn<Real, Curve> {
    typedef Kbrn<Real, Curve> Own;
    using Own::V, Own::W, Own::p, Own::curve, Own::H, Own::blocks, Own::size, Own::counts, Own::totals, Own::lanes, Own::own_inverse;
    Workspace<Real> carried, slopes, normed, turned;  // dh, the gradient of gain n + offset, n, and U transposed
    std::vector<double> sums, of_norm;                // of each thread the curves' sums; of gain and offset (2, H)

  public:
    using Own::threads;
    KbrnBackward(const RepresenterKbrn& all, const Curve& of)
        : Own(all, of), carried(blocks * size), slopes(blocks * size), normed(blocks * size), turned(H * H, false),
          sums(threads * H * of.width, 0.0), of_norm(2 * H, 0.0) {
        transpose_matrix(this->template in<Real>(p.weight), H, H, turned.at(0));
        for (int64_t k = 0; k < blocks; ++k) block_from(this->template in<Real>(p.grad_h) + k * W * H, H, lanes(k), H, carried.at(k * size));
    }
    void run(int64_t thread, int64_t team) {
        const int64_t first = share(blocks, team, thread), last = share(blocks, team, thread + 1);
        for (int64_t t = p.time - 1; t >= 0; --t) {
            for (int64_t k = first; k < last; ++k) through_curve(t, k, thread);
            if (p.norm) {
                REPRESENTER_BARRIER
                for (int64_t i = share(H, team, thread); i < share(H, team, thread + 1); ++i) moments(i);
                REPRESENTER_BARRIER
            }
            for (int64_t k = first; k < last; ++k) through_norm(t, k, thread);
        }
        for (int64_t k = first; k < last; ++k) block_to(carried.at(k * size), lanes(k), H, static_cast<Real*>(p.grad_h0) + k * W * H);
    }
    void finish() {
        for (int64_t i = 0; i < H; ++i) {
            double* own = sums.data() + i * curve.width;
            for (int64_t thread = 1; thread < threads; ++thread)
                for (int64_t r = 0; r < curve.width; ++r) own[r] += sums[(thread * H + i) * curve.width + r];
            curve.finish(i, own);
            for (int r = 0; r < 2 && p.grad_norm; ++r) static_cast<Real*>(p.grad_norm)[r * H + i] = Real(of_norm[r * H + i]);
        }
    }

  private:
    void through_curve(int64_t t, int64_t k, int64_t thread) {
        Real *dh = carried.at(k * size), *d = slopes.at(k * size), *n_block = normed.at(k * size);
        this->mark(t, k, p.time - 1);
        const int64_t count = lanes(k);
        alignas(64) Real at[KBRN_W<Real>] = {};
        block_from(this->template in<Real>(p.grad_output) + (t * p.batch + k * W) * H, H, count, H, d);
        for (int64_t i = 0; i < H; ++i) {
            const Real gain = p.norm ? this->template in<Real>(p.norm)[i] : Real(1), offset = p.norm ? this->template in<Real>(p.norm)[H + i] : Real(0);
            Real *row = d + i * W, *carry = dh + i * W, *n_row = n_block + i * W;
            std::memcpy(n_row, this->template in<Real>(p.normed) + (t * H + i) * p.batch + k * W, count * sizeof(Real));
            for (int64_t n = 0; n < W; n += V) {
                const Int<Real> real = this->is_real(k, n);
                const Vec<Real> old = load<Real>(carry + n);
                store<Real>(row + n, real ? load<Real>(row + n) + old : Vec<Real>{});
                store<Real>(carry + n, real ? Vec<Real>{} : old);
                store<Real>(at + n, load<Real>(n_row + n) * gain + offset);
            }
            curve.slopes(i, at, row, int(count), sums.data() + (thread * H + i) * curve.width);
        }
    }
    void moments(int64_t i) {
        Vec<Real> total{}, products{};
        for (int64_t k = 0; k < blocks; ++k)
            for (int64_t n = 0; n < W; n += V) {
                const Vec<Real> d = load<Real>(slopes.at(k * size + i * W + n));
                total += d, products += d * load<Real>(normed.at(k * size + i * W + n));
            }
        totals[i] = double(sum<Real>(total)), totals[H + i] = double(sum<Real>(products));
        of_norm[i] += totals[H + i], of_norm[H + i] += totals[i];
    }
    void through_norm(int64_t t, int64_t k, int64_t thread) {
        Real* d = slopes.at(k * size);
        if (p.norm) {
            const bool of_batch = this->is_of_batch(t);
            if (!of_batch) this->given(t, k, thread);
            for (int64_t i = 0; i < H; ++i) {
                const Real gain = this->template in<Real>(p.norm)[i];
                const Real var = of_batch ? static_cast<Real*>(p.used)[(p.time + t) * H + i] : Real(0);
                const Real factor = gain * Real(1 / std::sqrt(double(var) + p.epsilon));
                const Real mean = of_batch ? Real(totals[i] / double(counts[t])) : Real(0);
                const Real slope = of_batch ? Real(totals[H + i] / double(counts[t])) : Real(0);
                for (int64_t n = 0; n < W; n += V) {
                    const int64_t at = i * W + n;
                    Vec<Real> x = load<Real>(d + at);
                    if (of_batch) x = (x - mean - load<Real>(normed.at(k * size + at)) * slope) * factor;
                    else x *= load<Real>(own_inverse.at(thread * size + at)) * gain;
                    store<Real>(d + at, this->is_real(k, n) ? x : Vec<Real>{});
                }
            }
        }
        block_to(d, lanes(k), H, static_cast<Real*>(p.grad_z) + (t * p.batch + k * W) * H);
        add_product(turned.at(0), d, H, carried.at(k * size));
    }
};

// The team may be smaller than was asked for.
template <class Pass> void in_a_team(Pass& pass) {
#if defined(_OPENMP)
#pragma omp parallel num_threads(pass.threads) if (pass.threads > 1)
    pass.run(omp_get_thread_num(), omp_get_num_threads());
#else
    pass.run(0, 1);
#endif
}

template <class Real, class Curve, bool BACKWARD> void kbrn_of(const RepresenterKbrn& p) {
    const Curve curve(p);
    if constexpr (BACKWARD) {
        KbrnBackward<Real, Curve> of(p, curve);
        in_a_team(of);
        of.finish();
    } else {
        KbrnForward<Real, Curve> of(p, curve);
        in_a_team(of);
    }
}

template <class Real, bool BACKWARD> int kbrn(const RepresenterKbrn& p) {
    if (p.green == GREEN_GAUSSIAN) kbrn_of<Real, Bell<Real>, BACKWARD>(p);
    else if (p.green == GREEN_CUBIC) kbrn_of<Real, Piecewise<Real, 3>, BACKWARD>(p);
    else kbrn_of<Real, Piecewise<Real, 1>, BACKWARD>(p);
    return 0;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
