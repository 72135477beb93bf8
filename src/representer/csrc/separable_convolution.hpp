// separable_convolution: y[t] = sum_r sum_k taps[r, k] (mix[r] . x[t stride + k dilation]), with gradient.
//
// Each thread owns two vectors of filters and processes the batch in chunks of time steps, so that the
// mixed channels stay in the cache and the result is deterministic. Channels are mixed once per sample
// rather than per slot: 2 (I stride + n) products instead of I n.
#pragma once

#include <new>
#include <type_traits>

#include "core.hpp"
#include "parallel.hpp"
#include "vec.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

constexpr int64_t CHUNK = 256;  // time steps

// N vectors of filters starting at `first`; a band of one vector may be partially filled.
template <class Real, int N> class SeparableBand {
    static constexpr int V = Lanes<Real>::n, W = N * V, SUMS = 12 / N;
    typedef Vec<Real> Row[N];

  public:
    SeparableBand(const RepresenterSeparable& args, int64_t first)
        : p(args), first(first), count(args.outputs - first < V ? int(args.outputs - first) : V),
          reach((args.length - 1) * args.dilation), chunk(args.time < CHUNK ? args.time : CHUNK),
          samples((chunk - 1) * args.stride + reach + 1), taps(args.rank * args.length * W), mix(args.rank * args.channels * W),
          mixed(args.rank * samples * W) {
        pack(p.taps, p.rank * p.length, taps.at(0));
        pack(p.mix, p.rank * p.channels, mix.at(0));
    }

    void forward() const {
        Workspace<int64_t> offsets(p.length);
        for (int64_t k = 0; k < p.length; ++k) *offsets.at(k) = k * p.dilation;
        each_chunk([&](int64_t b, int64_t start, int64_t steps) {
            mix_channels(b, start, steps);
            for (int64_t t = 0; t < steps; t += SUMS) {
                const int some = steps - t < SUMS ? int(steps - t) : SUMS;
                Row y[SUMS] = {};
                for (int64_t r = 0; r < p.rank; ++r)
                    correlate(some, tap(r, 0), 1, p.length, offsets.at(0), at(r, t * p.stride), p.stride, y);
                for (int i = 0; i < some; ++i) put(output(start + t + i, b), y[i]);
            }
        });
    }

    void backward() const {
        const int64_t pad = reach / p.stride, most = samples / p.stride + 1;
        Workspace<Real> grad((pad + most + SUMS) * W), of_taps(p.rank * p.length * W), of_mix(p.rank * p.channels * W);
        Workspace<Real> of_mixed((samples + SUMS * p.stride) * W);
        Workspace<int64_t> offsets(p.length);
        each_chunk([&](int64_t b, int64_t start, int64_t steps) {
            mix_channels(b, start, steps);
            for (int64_t t = 0; t < most + SUMS; ++t)  // zero padding after the last step
                for (int j = 0; j < N; ++j)
                    store<Real>(grad.at((pad + t) * W + j * V), t < steps ? get(gradient(start + t, b) + j * V) : Vec<Real>{});
            for (int64_t r = 0; r < p.rank; ++r) {
                in_groups(p.length, [&](auto group, int64_t k, int done) {
                    gather<group.value>(at(r, k * p.dilation), p.dilation * W, p.stride * W, grad.at(pad * W), steps, done,
                                        of_taps.at((r * p.length + k) * W));
                });
                spread(r, steps, pad, grad.at(0), offsets.at(0), of_mixed.at(0));
                in_groups(p.channels, [&](auto group, int64_t c, int done) {
                    gather_mix<group.value>(input(start * p.stride, b) + c, span(steps), of_mixed.at(0), done,
                                            of_mix.at((r * p.channels + c) * W));
                });
            }
        });
        unpack(of_taps.at(0), p.rank * p.length, p.grad_taps);
        unpack(of_mix.at(0), p.rank * p.channels, p.grad_mix);
    }

  private:
    const RepresenterSeparable& p;
    const int64_t first;
    const int count;  // filters per vector
    const int64_t reach, chunk, samples;
    Workspace<Real> taps, mix, mixed;  // (R, n, W), (R, I, W), and (R, samples, W) for one chunk

    REPRESENTER_INLINE Vec<Real> get(const Real* from) const { return N == 1 ? load(from, count) : load<Real>(from); }
    REPRESENTER_INLINE void put(Real* to, const Row& v) const {
        for (int j = 0; j < N; ++j) N == 1 ? store(to + j * V, v[j], count) : store<Real>(to + j * V, v[j]);
    }
    Real* output(int64_t t, int64_t b) const { return static_cast<Real*>(p.output) + (t * p.batch + b) * p.outputs + first; }
    const Real* gradient(int64_t t, int64_t b) const { return static_cast<const Real*>(p.grad) + (t * p.batch + b) * p.outputs + first; }
    const Real* input(int64_t s, int64_t b) const { return static_cast<const Real*>(p.x) + (s * p.batch + b) * p.channels; }
    Real* tap(int64_t r, int64_t k) const { return taps.at((r * p.length + k) * W); }
    Real* at(int64_t r, int64_t s) const { return mixed.at((r * samples + s) * W); }
    int64_t span(int64_t steps) const { return (steps - 1) * p.stride + reach + 1; }

    void pack(const void* from, int64_t rows, Real* to) const {
        for (int64_t i = 0; i < rows; ++i)
            for (int j = 0; j < N; ++j) store<Real>(to + i * W + j * V, get(static_cast<const Real*>(from) + i * p.outputs + first + j * V));
    }
    void unpack(const Real* from, int64_t rows, void* to) const {
        for (int64_t i = 0; i < rows; ++i) {
            Row v;
            for (int j = 0; j < N; ++j) v[j] = load<Real>(from + i * W + j * V);
            put(static_cast<Real*>(to) + i * p.outputs + first, v);
        }
    }
    template <class Body> void each_chunk(Body body) const {
        for (int64_t b = 0; b < p.batch; ++b)
            for (int64_t start = 0; start < p.time; start += chunk)
                body(b, start, p.time - start < chunk ? p.time - start : chunk);
    }

    // Mix the channels of the samples of a chunk.
    void mix_channels(int64_t b, int64_t start, int64_t steps) const {
        const int64_t all = span(steps);
        for (int64_t r = 0; r < p.rank; ++r) {
            int64_t s = 0;
            for (; s + SUMS <= all; s += SUMS) mix_some<SUMS>(r, s, input(start * p.stride + s, b));
            for (; s < all; ++s) mix_some<1>(r, s, input(start * p.stride + s, b));
        }
    }
    template <int A> REPRESENTER_INLINE void mix_some(int64_t r, int64_t s, const Real* x) const {
        const int64_t next = p.batch * p.channels;
        Row total[A] = {};
        const Real* weight = mix.at(r * p.channels * W);
        for (int64_t c = 0; c < p.channels; ++c, weight += W)
            for (int j = 0; j < N; ++j) {
                const Vec<Real> w = load<Real>(weight + j * V);
                for (int i = 0; i < A; ++i) total[i][j] += w * x[i * next + c];
            }
        for (int i = 0; i < A; ++i)
            for (int j = 0; j < N; ++j) store<Real>(at(r, s + i) + j * V, total[i][j]);
    }

    // y[i] += sum_k taps[k every] z[i stride + offsets[k]] for i < some.
    void correlate(int some, const Real* tap, int64_t every, int64_t number, const int64_t* offsets, const Real* z, int64_t stride,
                   Row* y) const {
        if (some == SUMS) return correlate_some<SUMS>(tap, every, number, offsets, z, stride, y);
        for (int i = 0; i < some; ++i) correlate_some<1>(tap, every, number, offsets, z + i * stride * W, stride, y + i);
    }
    template <int A> void correlate_some(const Real* tap, int64_t every, int64_t number, const int64_t* offsets, const Real* z,
                                         int64_t stride, Row* y) const {
        Row total[A];
        for (int i = 0; i < A; ++i)
            for (int j = 0; j < N; ++j) total[i][j] = y[i][j];
        for (int64_t k = 0; k < number; ++k, tap += every * W) {
            const Real* from = z + offsets[k] * W;
            for (int j = 0; j < N; ++j) {
                const Vec<Real> w = load<Real>(tap + j * V);
                for (int i = 0; i < A; ++i) total[i][j] += w * load<Real>(from + i * stride * W + j * V);
            }
        }
        for (int i = 0; i < A; ++i)
            for (int j = 0; j < N; ++j) y[i][j] = total[i][j];
    }

    // Split a range into groups of SUMS. The last group overlaps the one before it by `done` entries,
    // which are already summed.
    template <class Body> static void in_groups(int64_t number, Body body) {
        int64_t i = 0;
        for (; i + SUMS <= number; i += SUMS) body(std::integral_constant<int, SUMS>(), i, 0);
        if (i && i < number) return body(std::integral_constant<int, SUMS>(), number - SUMS, int(i + SUMS - number));
        for (; i < number; ++i) body(std::integral_constant<int, 1>(), i, 0);
    }

    // Gradient of A slots of the taps: sum_t z[t stride + k dilation] dy[t].
    template <int A>
    void gather(const Real* z, int64_t across, int64_t down, const Real* grad, int64_t steps, int done, Real* to) const {
        Row total[A] = {};
        for (int64_t t = 0; t < steps; ++t, z += down, grad += W)
            for (int j = 0; j < N; ++j) {
                const Vec<Real> d = load<Real>(grad + j * V);
                for (int i = 0; i < A; ++i) total[i][j] += d * load<Real>(z + i * across + j * V);
            }
        add<A>(total, done, to);
    }

    // Gradient of A channels of the mix: sum_s x[s, c] dz[s].
    template <int A> void gather_mix(const Real* x, int64_t all, const Real* dz, int done, Real* to) const {
        const int64_t next = p.batch * p.channels;
        Row total[A] = {};
        for (int64_t s = 0; s < all; ++s, x += next, dz += W)
            for (int j = 0; j < N; ++j) {
                const Vec<Real> d = load<Real>(dz + j * V);
                for (int i = 0; i < A; ++i) total[i][j] += d * x[i];
            }
        add<A>(total, done, to);
    }
    template <int A> static void add(const Row* total, int done, Real* to) {
        for (int i = done; i < A; ++i)
            for (int j = 0; j < N; ++j) store<Real>(to + i * W + j * V, load<Real>(to + i * W + j * V) + total[i][j]);
    }

    // Gradient of the mixed channels, summed over the steps whose slots cover a sample. Samples with
    // the same index modulo the stride have the same slots.
    void spread(int64_t r, int64_t steps, int64_t pad, const Real* grad, int64_t* offsets, Real* to) const {
        const int64_t all = span(steps);
        for (int64_t rest = 0; rest < p.stride && rest < all; ++rest) {
            int64_t start = 0;
            while (start < p.length && start * p.dilation % p.stride != rest) ++start;
            int64_t every = 1;
            while (every * p.dilation % p.stride) ++every;
            int64_t number = 0;
            for (int64_t k = start; k < p.length; k += every) offsets[number++] = -(k * p.dilation / p.stride);
            for (int64_t q = 0; q * p.stride + rest < all; q += SUMS) {
                Row dz[SUMS] = {};
                if (number) correlate(SUMS, tap(r, start), every, number, offsets, grad + (pad + q) * W, 1, dz);
                for (int i = 0; i < SUMS; ++i)  // entries past the end are never read
                    for (int j = 0; j < N; ++j) store<Real>(to + ((q + i) * p.stride + rest) * W + j * V, dz[i][j]);
            }
        }
    }
};

template <class Real, bool BACKWARD, int N> void separable_band(const RepresenterSeparable& p, int64_t first) {
    const SeparableBand<Real, N> band(p, first);
    BACKWARD ? band.backward() : band.forward();
}

template <class Real, bool BACKWARD> int separable(const RepresenterSeparable& p) {
    constexpr int64_t V = Lanes<Real>::n;
    if (!p.batch || p.time <= 0) return 0;
    const int64_t bands = (p.outputs + 2 * V - 1) / (2 * V);
    parallel_for<DYNAMIC>(bands, p.threads, [&](int64_t i) {
        const int64_t first = i * 2 * V, left = p.outputs - first;
        if (left >= 2 * V) {
            separable_band<Real, BACKWARD, 2>(p, first);
        } else {
            for (int64_t done = 0; done < left; done += V) separable_band<Real, BACKWARD, 1>(p, first + done);
        }
    });
    return 0;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
