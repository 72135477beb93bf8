// Vectors of the instruction set this file is compiled for, and the functions of one variable.
//
// GCC's and Clang's vector extensions give arithmetic in one source for every instruction set; only
// loads and stores of a row's ragged end need intrinsics.
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
    static constexpr int n = REPRESENTER_BYTES / 4;
};
template <> struct Lanes<double> {
    typedef double Vec __attribute__((vector_size(REPRESENTER_BYTES)));
    typedef int64_t Int __attribute__((vector_size(REPRESENTER_BYTES)));
    static constexpr int n = REPRESENTER_BYTES / 8;
};
template <class Real> using Vec = typename Lanes<Real>::Vec;
template <class Real> using Int = typename Lanes<Real>::Int;

#define REPRESENTER_INLINE inline __attribute__((always_inline))

template <class Real> REPRESENTER_INLINE Vec<Real> splat(Real value) {
    return value - Vec<Real>{};  // x - 0 is x, so that one broadcast is left
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

// The first `count` lanes; the others are 0 on loading and left alone on storing.
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

// Into [low, high]; NaN stays NaN.
template <class Real> REPRESENTER_INLINE Vec<Real> clamp(Vec<Real> x, Real low, Real high) {
    const Vec<Real> below = x > high ? splat(high) : x;
    return below < low ? splat(low) : below;
}
#if defined(__AVX512F__)
template <> REPRESENTER_INLINE Vec<float> clamp<float>(Vec<float> x, float low, float high) {
    return (Vec<float>)_mm512_max_ps(_mm512_set1_ps(low), _mm512_min_ps(_mm512_set1_ps(high), (__m512)x));
}
#elif defined(__AVX2__)
template <> REPRESENTER_INLINE Vec<float> clamp<float>(Vec<float> x, float low, float high) {
    return (Vec<float>)_mm256_max_ps(_mm256_set1_ps(low), _mm256_min_ps(_mm256_set1_ps(high), (__m256)x));
}
#endif

// x = k ln 2 + r with a whole k and |r| <= ln(2) / 2; returns e^r - 1, to its last digits where it is
// small. k comes as `shifted`, k plus the number that rounds to a whole one when it is added.
constexpr float ROUND_FLOAT = 12582912.0f;           // 1.5 * 2^23
constexpr double ROUND_DOUBLE = 6755399441055744.0;  // 1.5 * 2^52
REPRESENTER_INLINE Vec<float> less_one(Vec<float> x, Vec<float>& shifted) {
    shifted = x * 1.44269504088896f + ROUND_FLOAT;
    const Vec<float> k = shifted - ROUND_FLOAT;
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    const Vec<float> r = x - k * 0.693147180559945f;
#else  // the first product is exact
    const Vec<float> r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
#endif
    Vec<float> p = splat(8.290305733680725e-3f);  // minimax of degree 5 with e^0 = 1
    p = p * r + 4.18979749083519e-2f;
    p = p * r + 1.666763722896576e-1f;
    p = p * r + 4.999915063381195e-1f;
    p = p * r + 9.999997019767761e-1f;
    return p * r;
}
REPRESENTER_INLINE Vec<double> less_one(Vec<double> x, Vec<double>& shifted) {
    shifted = x * 1.4426950408889634074 + ROUND_DOUBLE;
    const Vec<double> k = shifted - ROUND_DOUBLE;
    const Vec<double> r = (x - k * 6.93145751953125e-1) - k * 1.42860682030941723212e-6;
    Vec<double> p = splat(1.0 / 6227020800.0);  // the Taylor series to r^13 / 13!
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    return p * (r * r) + r;
}

// p 2^k
REPRESENTER_INLINE Vec<float> scaled(Vec<float> p, Vec<float> shifted) {
#if defined(__AVX512F__)
    return (Vec<float>)_mm512_scalef_ps((__m512)p, (__m512)(shifted - ROUND_FLOAT));
#else
    const Int<float> exponent = ((Int<float>)shifted - (Int<float>)splat(ROUND_FLOAT) + 127) << 23;
    return p * (Vec<float>)exponent;
#endif
}
REPRESENTER_INLINE Vec<double> scaled(Vec<double> p, Vec<double> shifted) {
    const Int<double> exponent = ((Int<double>)shifted - (Int<double>)splat(ROUND_DOUBLE) + 1023) << 52;
    return p * (Vec<double>)exponent;
}

// e^x for x clamped to [low, high]; relative error below 3e-7 in float, 3e-16 in double. NaN stays NaN.
template <class Real> REPRESENTER_INLINE Vec<Real> exponential(Vec<Real> x, Real low, Real high) {
    Vec<Real> shifted;
    const Vec<Real> p = less_one(clamp<Real>(x, low, high), shifted);
    return scaled(p + Real(1), shifted);
}

// Where exponents run out: 0 below, infinity above.
REPRESENTER_INLINE Vec<float> exponential(Vec<float> x) { return exponential<float>(x, -88.0f, 89.0f); }
REPRESENTER_INLINE Vec<double> exponential(Vec<double> x) { return exponential<double>(x, -709.0, 710.0); }

// Largest argument whose exponential is finite with room to spare, for quotients.
template <class Real> constexpr Real FINITE = 0;
template <> constexpr float FINITE<float> = 87.0f;
template <> constexpr double FINITE<double> = 708.0;

// e^x - 1 for x up to FINITE, with a small relative error.
template <class Real> REPRESENTER_INLINE Vec<Real> finite_expm1(Vec<Real> x) {
    Vec<Real> shifted;
    const Vec<Real> p = less_one(clamp<Real>(x, -FINITE<Real>, FINITE<Real>), shifted);
    const Vec<Real> power = scaled(splat<Real>(1), shifted);
    return p * power + (power - Real(1));
}
template <class Real> REPRESENTER_INLINE Vec<Real> expm1(Vec<Real> x) {
    return x > Real(1) ? exponential(x) - Real(1) : finite_expm1<Real>(x);
}

REPRESENTER_INLINE Vec<double> reciprocal(Vec<double> x) { return splat(1.0) / x; }
REPRESENTER_INLINE Vec<float> reciprocal(Vec<float> x) {
#if defined(__AVX512F__)  // an estimate and one step of Newton's method: cheaper than a division
    const Vec<float> y = (Vec<float>)_mm512_rcp14_ps((__m512)x);
    return y * (2.0f - x * y);
#elif defined(__AVX2__)
    const Vec<float> y = (Vec<float>)_mm256_rcp_ps((__m256)x);
    return y * (2.0f - x * y);
#else
    return splat(1.0f) / x;
#endif
}

template <class Real> REPRESENTER_INLINE Vec<Real> sigmoid(Vec<Real> x) {
    return reciprocal(exponential<Real>(-x, -FINITE<Real>, FINITE<Real>) + Real(1));
}
// Of the two forms one keeps the digits of small arguments, the other does not pass 1.
template <class Real> REPRESENTER_INLINE Vec<Real> hyperbolic_tangent(Vec<Real> x) {
    const Vec<Real> e = finite_expm1<Real>(x * Real(2)), inverse = reciprocal(e + Real(2));
    return x * x < Real(0.25) ? e * inverse : Real(1) - Real(2) * inverse;
}

// The names of representer.functional.NONLINEARITIES, in the order of its table.
enum Nonlinearity { IDENTITY, LINEAR, POLYNOMIAL, EXPONENTIAL, INVERSE, GAUSSIAN, TANH, SIGMOID, RELU };

template <class Real> REPRESENTER_INLINE Vec<Real> value(int name, Vec<Real> z) {
    switch (name) {
        case LINEAR: return z * Real(0.5);
        case POLYNOMIAL: return (z + Real(1)) * (z + Real(1)) * Real(0.25);
        case EXPONENTIAL: return expm1<Real>(z) * Real(0.5);
        case INVERSE: return z / (Real(2) - z);
        case GAUSSIAN: return exponential(z);
        case TANH: return hyperbolic_tangent<Real>(z);
        case SIGMOID: return sigmoid<Real>(z);
        case RELU: return z > Real(0) ? z : z * Real(0);  // NaN stays NaN
        default: return z;
    }
}
// dy/dz from z and y = value(name, z).
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
