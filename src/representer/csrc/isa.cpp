// Everything, for one instruction set: REPRESENTER_ISA names it and the compiler's flags set it.
#include <new>

#include "gated_scan.hpp"
#include "gemm.hpp"
#include "kbrn_backward.hpp"
#include "kernel_activation.hpp"
#include "machine.hpp"
#include "rkm_backward.hpp"
#include "rkm_forward.hpp"
#include "separable_convolution.hpp"
#include "string_backward.hpp"
#include "string_forward.hpp"
#include "string_gram.hpp"
#include "walk_aggregate.hpp"
#include "walk_rounds.hpp"

#define REPRESENTER_JOIN(a, b, c) a##_##b##_##c
#define REPRESENTER_ENTRY(operation, type, isa) REPRESENTER_JOIN(representer_##operation, type, isa)
#define REPRESENTER_DEFINE(operation, type, Real, Args, call)                                   \
    extern "C" int REPRESENTER_ENTRY(operation, type, REPRESENTER_ISA)(const Args* args) {      \
        try {                                                                                   \
            return representer::REPRESENTER_ISA::call(*args);                                   \
        } catch (const std::bad_alloc&) {                                                       \
            return 2;                                                                           \
        }                                                                                       \
    }

REPRESENTER_DEFINE(rkm_forward, f32, float, RepresenterForward, forward<float>)
REPRESENTER_DEFINE(rkm_forward, f64, double, RepresenterForward, forward<double>)
REPRESENTER_DEFINE(rkm_backward, f32, float, RepresenterBackward, backward<float>)
REPRESENTER_DEFINE(rkm_backward, f64, double, RepresenterBackward, backward<double>)
REPRESENTER_DEFINE(string_forward, f32, float, RepresenterStringForward, string_forward<float>)
REPRESENTER_DEFINE(string_forward, f64, double, RepresenterStringForward, string_forward<double>)
REPRESENTER_DEFINE(string_backward, f32, float, RepresenterStringBackward, string_backward<float>)
REPRESENTER_DEFINE(string_backward, f64, double, RepresenterStringBackward, string_backward<double>)
#define COMMA ,
REPRESENTER_DEFINE(scan_forward, f32, float, RepresenterScan, scan<float COMMA false>)
REPRESENTER_DEFINE(scan_forward, f64, double, RepresenterScan, scan<double COMMA false>)
REPRESENTER_DEFINE(scan_backward, f32, float, RepresenterScan, scan<float COMMA true>)
REPRESENTER_DEFINE(scan_backward, f64, double, RepresenterScan, scan<double COMMA true>)
REPRESENTER_DEFINE(string_gram, f32, float, RepresenterGram, string_gram<float>)
REPRESENTER_DEFINE(string_gram, f64, double, RepresenterGram, string_gram<double>)
REPRESENTER_DEFINE(walk_forward, f32, float, RepresenterWalk, walk<float COMMA false>)
REPRESENTER_DEFINE(walk_forward, f64, double, RepresenterWalk, walk<double COMMA false>)
REPRESENTER_DEFINE(walk_backward, f32, float, RepresenterWalk, walk<float COMMA true>)
REPRESENTER_DEFINE(walk_backward, f64, double, RepresenterWalk, walk<double COMMA true>)
REPRESENTER_DEFINE(rounds_forward, f32, float, RepresenterRounds, rounds<float COMMA false>)
REPRESENTER_DEFINE(rounds_forward, f64, double, RepresenterRounds, rounds<double COMMA false>)
REPRESENTER_DEFINE(rounds_backward, f32, float, RepresenterRounds, rounds<float COMMA true>)
REPRESENTER_DEFINE(rounds_backward, f64, double, RepresenterRounds, rounds<double COMMA true>)
REPRESENTER_DEFINE(activation_forward, f32, float, RepresenterActivation, activation_forward<float>)
REPRESENTER_DEFINE(activation_forward, f64, double, RepresenterActivation, activation_forward<double>)
REPRESENTER_DEFINE(activation_backward, f32, float, RepresenterActivation, activation_backward<float>)
REPRESENTER_DEFINE(activation_backward, f64, double, RepresenterActivation, activation_backward<double>)
REPRESENTER_DEFINE(kbrn_forward, f32, float, RepresenterKbrn, kbrn<float COMMA false>)
REPRESENTER_DEFINE(kbrn_forward, f64, double, RepresenterKbrn, kbrn<double COMMA false>)
REPRESENTER_DEFINE(kbrn_backward, f32, float, RepresenterKbrn, kbrn<float COMMA true>)
REPRESENTER_DEFINE(kbrn_backward, f64, double, RepresenterKbrn, kbrn<double COMMA true>)
REPRESENTER_DEFINE(separable_forward, f32, float, RepresenterSeparable, separable<float COMMA false>)
REPRESENTER_DEFINE(separable_forward, f64, double, RepresenterSeparable, separable<double COMMA false>)
REPRESENTER_DEFINE(separable_backward, f32, float, RepresenterSeparable, separable<float COMMA true>)
REPRESENTER_DEFINE(separable_backward, f64, double, RepresenterSeparable, separable<double COMMA true>)
REPRESENTER_DEFINE(product, f32, float, RepresenterProduct, product<float>)
REPRESENTER_DEFINE(product, f64, double, RepresenterProduct, product<double>)
REPRESENTER_DEFINE(transposed, f32, float, RepresenterProduct, transposed<float>)
REPRESENTER_DEFINE(transposed, f64, double, RepresenterProduct, transposed<double>)
REPRESENTER_DEFINE(arithmetic, f32, float, RepresenterProbe, arithmetic<float>)
REPRESENTER_DEFINE(arithmetic, f64, double, RepresenterProbe, arithmetic<double>)
REPRESENTER_DEFINE(memory, f32, float, RepresenterProbe, memory<float>)
REPRESENTER_DEFINE(memory, f64, double, RepresenterProbe, memory<double>)
