// SIMD vectors of the instruction set this file is compiled for, and elementwise functions.
//
// The vector extensions of GCC and Clang cover the arithmetic of all instruction sets in one source;
// only masked loads and stores at the end of a row need intrinsics.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define REPRESENTER_BYTES 64
#elif defined(__AVX2__)
#define REPRESENTER_BYTES 32
#else
#define REPRESENTER_BYTES 16
#endif

namespace representer {
namespace REPRESENTER_ISA {

template <class Real> struct Lanes;
template <> struct Lanes<float> {
    typedef float Vec __attribute__((vector_size(REPRESENTER_BYTES)));
    typedef int32_t Int __attribute__((vector_size(REPRESENTER_BYTES)));
    typedef uint32_t Bits __attribute__((vector_size(REPRESENTER_BYTES)));
    static constexpr int n = REPRESENTER_BYTES / 4;
};
template <> struct Lanes<double> {
    typedef double Vec __attribute__((vector_size(REPRESENTER_BYTES)));
    typedef int64_t Int __attribute__((vector_size(REPRESENTER_BYTES)));
    typedef uint64_t Bits __attribute__((vector_size(REPRESENTER_BYTES)));
    static constexpr int n = REPRESENTER_BYTES / 8;
};
template <class Real> using Vec = typename Lanes<Real>::Vec;
template <class Real> using Int = typename Lanes<Real>::Int;
template <class Real> using Bits = typename Lanes<Real>::Bits;  // for arithmetic that may wrap around

#define REPRESENTER_INLINE inline __attribute__((always_inline))

template <class Real> REPRESENTER_INLINE Vec<Real> splat(Real value) {
    return value - Vec<Real>{};  // x - 0 is x, so this compiles to a single broadcast
}

template <class Real> REPRESENTER_INLINE Vec<Real> load(const Real* p) {
    Vec<Real> v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
template <class Real> REPRESENTER_INLINE void store(Real* p, Vec<Real> v) { std::memcpy(p, &v, sizeof v); }

#if defined(__SANITIZE_ADDRESS__)  // it does not look at what masked instructions read and write
template <class Real> inline void touch(const Real* p, int count) {
    volatile Real end = p[0];
    end = p[count - 1];
    (void)end;
}
#else
template <class Real> REPRESENTER_INLINE void touch(const Real*, int) {}
#endif

// Masked load and store of the first `count` lanes: the others are loaded as 0 and never stored.
REPRESENTER_INLINE Vec<float> load(const float* p, int count) {
    if (count == Lanes<float>::n) return load<float>(p);
    touch(p, count);
#if defined(__AVX512F__)
    return (Vec<float>)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), p);
#elif defined(__AVX2__)
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (Vec<float>)_mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane));
#else
    Vec<float> v{};
    for (int i = 0; i < count; ++i) v[i] = p[i];
    return v;
#endif
}
REPRESENTER_INLINE Vec<double> load(const double* p, int count) {
    if (count == Lanes<double>::n) return load<double>(p);
    touch(p, count);
#if defined(__AVX512F__)
    return (Vec<double>)_mm512_maskz_loadu_pd((__mmask8)((1u << count) - 1), p);
#else
    Vec<double> v{};
    for (int i = 0; i < count; ++i) v[i] = p[i];
    return v;
#endif
}
REPRESENTER_INLINE void store(float* p, Vec<float> v, int count) {
    if (count == Lanes<float>::n) return store<float>(p, v);
    touch(p, count);
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << count) - 1), (__m512)v);
#elif defined(__AVX2__)
    __m128 part = _mm256_castps256_ps128((__m256)v);  // masked stores are slow on some processors
    if (count & 4) _mm_storeu_ps(p, part), p += 4, part = _mm256_extractf128_ps((__m256)v, 1);
    if (count & 2) _mm_storel_pi((__m64*)p, part), p += 2, part = _mm_movehl_ps(part, part);
    if (count & 1) _mm_store_ss(p, part);
#else
    for (int i = 0; i < count; ++i) p[i] = v[i];
#endif
}
REPRESENTER_INLINE void store(double* p, Vec<double> v, int count) {
    if (count == Lanes<double>::n) return store<double>(p, v);
    touch(p, count);
#if defined(__AVX512F__)
    _mm512_mask_storeu_pd(p, (__mmask8)((1u << count) - 1), (__m512d)v);
#else
    for (int i = 0; i < count; ++i) p[i] = v[i];
#endif
}

template <class Real> REPRESENTER_INLINE Real sum(Vec<Real> v) {
    Real total = 0;
    for (int i = 0; i < Lanes<Real>::n; ++i) total += v[i];
    return total;
}

template <class Real> struct Exponential;
template <> struct Exponential<float> {
    static constexpr float ROUND = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
    static constexpr float LOG2_E = 1.44269504088896f;
    static constexpr float LN2_HIGH = 0.693359375f, LN2_LOW = -2.12194440e-4f;  // k LN2_HIGH is exact
    static constexpr float LEAST = -87.33654f, MOST = 88.72283f;  // e^x is a normal number in this range
    static constexpr int MANTISSA = 23;
    static constexpr int TERMS = 5;  // (e^r - 1 - r) / r^2, minimax; relative error of e^r - 1 below 2e-8
    static constexpr float SERIES[TERMS] = {
        1.3882516650483012e-3f, 8.366547524929047e-3f, 4.166720062494278e-2f, 1.666654348373413e-1f,
        4.999999701976776e-1f};
};
template <> struct Exponential<double> {
    static constexpr double ROUND = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double LOG2_E = 1.4426950408889634074;
    static constexpr double LN2_HIGH = 6.93145751953125e-1, LN2_LOW = 1.42860682030941723212e-6;
    static constexpr double LEAST = -708.396418532264, MOST = 709.782712893384;
    static constexpr int MANTISSA = 52;
    static constexpr int TERMS = 12;  // the Taylor series to r^13 / 13!
    static constexpr double SERIES[TERMS] = {
        1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0,
        1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5};
};

// Reduce x = k ln 2 + r with an integer k and |r| <= ln(2) / 2. Return e^r - 1 to full relative accuracy,
// and set `exponent` to k, shifted to the exponent bits of a floating-point number.
template <class Real> REPRESENTER_INLINE Vec<Real> reduced_expm1(Vec<Real> x, Bits<Real>& exponent) {
    typedef Exponential<Real> E;
    const Vec<Real> shifted = x * E::LOG2_E + E::ROUND, k = shifted - E::ROUND;
    const Vec<Real> r = (x - k * E::LN2_HIGH) - k * E::LN2_LOW;
    exponent = (Bits<Real>)shifted << E::MANTISSA;
    Vec<Real> p = splat<Real>(E::SERIES[0]);
#pragma GCC unroll 12
    for (int i = 1; i < E::TERMS; ++i) p = p * r + E::SERIES[i];
    return p * (r * r) + r;
}
// Return p 2^k. Neither p nor the product may be 0, denormal or infinite.
template <class Real> REPRESENTER_INLINE Vec<Real> scaled(Vec<Real> p, Bits<Real> exponent) {
    return (Vec<Real>)((Bits<Real>)p + exponent);
}
template <class Real> REPRESENTER_INLINE Vec<Real> at_least(Vec<Real> x, Real low) { return x < low ? splat(low) : x; }
template <class Real> REPRESENTER_INLINE Vec<Real> at_most(Vec<Real> x, Real high) { return x > high ? splat(high) : x; }
// Return `result` for x <= MOST and infinity above. NaN propagates.
template <class Real> REPRESENTER_INLINE Vec<Real> or_infinity(Vec<Real> x, Vec<Real> result) {
    return x <= Exponential<Real>::MOST ? result : x + Real(__builtin_inf());
}

// Return e^x. Results below the normal range are flushed to 0: denormals are slow on many processors.
template <class Real> REPRESENTER_INLINE Vec<Real> exponential(Vec<Real> x) {
    Bits<Real> exponent;
    const Vec<Real> p = reduced_expm1<Real>(x, exponent), power = scaled<Real>(p + Real(1), exponent);
    return or_infinity<Real>(x, x < Exponential<Real>::LEAST ? Vec<Real>{} : power);
}

// (e^x - 1) / 2 for x >= -40, as p 2^k / 2 + (2^k - 1) / 2: 2^k may overflow where e^x does not.
template <class Real> REPRESENTER_INLINE Vec<Real> half_expm1(Vec<Real> x) {
    Bits<Real> exponent;
    const Vec<Real> p = reduced_expm1<Real>(x, exponent), half = scaled<Real>(splat<Real>(0.5), exponent);
    return p * half + (half - Real(0.5));
}
template <class Real> REPRESENTER_INLINE Vec<Real> expm1(Vec<Real> x) {
    const Vec<Real> half = half_expm1<Real>(at_least<Real>(x, -40));
    return or_infinity<Real>(x, half + half);
}

// 1 / (1 + e^-x), as 0.5 / (0.5 + p 2^k / 2 + 2^k / 2).
template <class Real> REPRESENTER_INLINE Vec<Real> sigmoid(Vec<Real> x) {
    Bits<Real> exponent;
    const Vec<Real> p = reduced_expm1<Real>(at_least<Real>(-x, -40), exponent);
    const Vec<Real> half = scaled<Real>(splat<Real>(0.5), exponent);
    return Real(0.5) / or_infinity<Real>(-x, (p * half + Real(0.5)) + half);
}
// (e^2|x| - 1) / (e^2|x| + 1) with the sign of x. The quotient is 1 for |x| > 20.
template <class Real> REPRESENTER_INLINE Vec<Real> hyperbolic_tangent(Vec<Real> x) {
    const Int<Real> sign = (Int<Real>)x & (Int<Real>)splat<Real>(-0.0);
    const Vec<Real> magnitude = (Vec<Real>)((Int<Real>)x ^ sign);
    const Vec<Real> e = half_expm1<Real>(at_most<Real>(magnitude + magnitude, 40)), quotient = e / (e + Real(1));
    const Vec<Real> result = magnitude < Real(0.35) ? e - e * quotient : quotient;  // equal to the quotient, with less rounding error
    return (Vec<Real>)((Int<Real>)result | sign);
}

// In the order of representer.functional.NONLINEARITIES.
enum Nonlinearity { IDENTITY, LINEAR, POLYNOMIAL, EXPONENTIAL, INVERSE, GAUSSIAN, TANH, SIGMOID, RELU };

template <class Real> REPRESENTER_INLINE Vec<Real> value(int name, Vec<Real> z) {
    switch (name) {
        case LINEAR: return z * Real(0.5);
        case POLYNOMIAL: return (z + Real(1)) * (z + Real(1)) * Real(0.25);
        case EXPONENTIAL: return expm1<Real>(z) * Real(0.5);
        case INVERSE: return z / (Real(2) - z);
        case GAUSSIAN: return exponential<Real>(z);
        case TANH: return hyperbolic_tangent<Real>(z);
        case SIGMOID: return sigmoid<Real>(z);
        case RELU: return z > Real(0) ? z : z * Real(0);  // NaN propagates
        default: return z;
    }
}
// Return dy/dz from z and y = value(name, z).
template <class Real> REPRESENTER_INLINE Vec<Real> slope(int name, Vec<Real> z, Vec<Real> y) {
    switch (name) {
        case LINEAR: return splat<Real>(0.5);
        case POLYNOMIAL: return (z + Real(1)) * Real(0.5);
        case EXPONENTIAL: return y + Real(0.5);
        case INVERSE: return splat<Real>(2) / ((Real(2) - z) * (Real(2) - z));
        case GAUSSIAN: return y;
        case TANH: return Real(1) - y * y;
        case SIGMOID: return y * (Real(1) - y);
        case RELU: return z > Real(0) ? splat<Real>(1) : Vec<Real>{};
        default: return splat<Real>(1);
    }
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
