// kbrn_scan backward: the same layout as forward, from the last step to the first. The gradient of
// the recurrent matrix, a sum over all steps, is left to torch.
#pragma once

#include "kbrn_scan.hpp"

namespace representer {
namespace REPRESENTER_ISA {

template <class Real> class KbrnBackward : Kbrn<Real> {
    typedef Kbrn<Real> Own;
    using Own::V, Own::W, Own::p, Own::H, Own::blocks, Own::row, Own::size, Own::counts, Own::totals, Own::inputs, Own::lanes, Own::own_inverse;
    Curve<Real>& curve;
    Workspace<Real> carried, slopes, normed, turned;  // dh; gradient of gain n + offset; n; U transposed
    std::vector<double> of_norm;                      // gradients of gain and offset (2, H)

  public:
    using Own::threads;
    KbrnBackward(const RepresenterKbrn& all, Curve<Real>& of)
        : Own(all), curve(of), carried(size), slopes(size), normed(size), turned(H * H, false), of_norm(2 * H, 0.0) {
        transpose_matrix(this->template in<Real>(p.weight), H, H, turned.at(0));
        for (int64_t k = 0; k < blocks; ++k) block_from(this->template in<Real>(p.grad_h) + k * W * H, H, lanes(k), H, carried.at(k * W), row);
    }
    void run(int64_t thread, int64_t team) {
        const int64_t first = share(blocks, team, thread), last = share(blocks, team, thread + 1);
        for (int64_t t = p.time - 1; t >= 0; --t) {
            for (int64_t k = first; k < last; ++k) {
                this->mark(t, k, p.time - 1);
                block_from(this->template in<Real>(p.grad_output) + (t * p.batch + k * W) * H, H, lanes(k), H, slopes.at(k * W), row);
            }
            for (int64_t i = 0; i < H; ++i) through_curve(t, i, first * W, last * W, thread);
            if (p.norm) {
                REPRESENTER_BARRIER
                for (int64_t i = share(H, team, thread); i < share(H, team, thread + 1); ++i) moments(i);
                REPRESENTER_BARRIER
                for (int64_t k = first; k < last && !this->is_of_batch(t); ++k) this->given(t, k);
                for (int64_t i = 0; i < H; ++i) through_norm(t, i, first * W, last * W);
            }
            for (int64_t k = first; k < last; ++k) {
                block_to(slopes.at(k * W), row, lanes(k), H, static_cast<Real*>(p.grad_z) + (t * p.batch + k * W) * H);
                add_product(turned.at(0), slopes.at(k * W), row, H, carried.at(k * W));
            }
        }
        for (int64_t k = first; k < last; ++k) block_to(carried.at(k * W), row, lanes(k), H, static_cast<Real*>(p.grad_h0) + k * W * H);
    }
    void finish() {
        curve.finish();
        for (int64_t i = 0; i < H; ++i)
            for (int r = 0; r < 2 && p.grad_norm; ++r) static_cast<Real*>(p.grad_norm)[r * H + i] = Real(of_norm[r * H + i]);
    }

  private:
    // Process sequences [first, end) of one unit.
    void through_curve(int64_t t, int64_t i, int64_t first, int64_t end, int64_t thread) {
        const int64_t count = std::min(end, p.batch) - first;
        const Vec<Real> gain = splat(this->norm(0, i)), offset = splat(this->norm(1, i));
        Real *d = slopes.at(i * row), *carry = carried.at(i * row), *x = normed.at(i * row), *at = inputs.at(0);
        std::memcpy(x + first, this->template in<Real>(p.normed) + (t * H + i) * p.batch + first, count * sizeof(Real));
        for (int64_t n = first; n < end; n += V) {
            const Int<Real> real = this->is_real(n);
            const Vec<Real> old = load<Real>(carry + n);
            store<Real>(d + n, real ? load<Real>(d + n) + old : Vec<Real>{});
            store<Real>(carry + n, real ? Vec<Real>{} : old);
            store<Real>(at + n, load<Real>(x + n) * gain + offset);
        }
        curve.slopes(thread, i, at + first, d + first, count);
    }
    void moments(int64_t i) {
        Vec<Real> total{}, products{};
        for (int64_t n = i * row; n < i * row + blocks * W; n += V) {
            const Vec<Real> d = load<Real>(slopes.at(n));
            total += d, products += d * load<Real>(normed.at(n));
        }
        totals[i] = double(sum<Real>(total)), totals[H + i] = double(sum<Real>(products));
        of_norm[i] += totals[H + i], of_norm[H + i] += totals[i];
    }
    void through_norm(int64_t t, int64_t i, int64_t first, int64_t end) {
        const bool of_batch = this->is_of_batch(t);
        const Real gain = this->norm(0, i);
        const Real var = of_batch ? static_cast<Real*>(p.used)[(p.time + t) * H + i] : Real(0);
        const Real factor = gain * Real(1 / std::sqrt(double(var) + p.epsilon));
        const Real mean = of_batch ? Real(totals[i] / double(counts[t])) : Real(0), slope = of_batch ? Real(totals[H + i] / double(counts[t])) : Real(0);
        for (int64_t n = first; n < end; n += V) {
            const int64_t at = i * row + n;
            Vec<Real> x = load<Real>(slopes.at(at));
            if (of_batch) x = (x - mean - load<Real>(normed.at(at)) * slope) * factor;
            else x *= load<Real>(own_inverse.at(at)) * gain;
            store<Real>(slopes.at(at), this->is_real(n) ? x : Vec<Real>{});
        }
    }
};

template <class Real, bool BACKWARD> __attribute__((noinline)) void kbrn_pass(const RepresenterKbrn& p, Curve<Real>& curve) {
    if constexpr (BACKWARD) {
        KbrnBackward<Real> of(p, curve);
        in_threads(of.threads, [&](int64_t thread, int64_t team) { of.run(thread, team); });
        of.finish();
    } else {
        KbrnForward<Real> of(p, curve);
        in_threads(of.threads, [&](int64_t thread, int64_t team) { of.run(thread, team); });
    }
}

template <class Real, bool BACKWARD, class Function> void kbrn_of(const RepresenterKbrn& p) {
    CurveOf<Real, Function> curve(p, BACKWARD ? kbrn_threads<Real>(p) : 0);
    kbrn_pass<Real, BACKWARD>(p, curve);
}

template <class Real, bool BACKWARD> int kbrn(const RepresenterKbrn& p) {
    if (p.green == GREEN_GAUSSIAN) kbrn_of<Real, BACKWARD, Bell<Real>>(p);
    else if (p.green == GREEN_CUBIC) kbrn_of<Real, BACKWARD, Piecewise<Real, 3>>(p);
    else kbrn_of<Real, BACKWARD, Piecewise<Real, 1>>(p);
    return 0;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
