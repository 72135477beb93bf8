// The C entry points of an operation: representer_<operation>_<type>_<instruction set>.
#pragma once

#include "core.hpp"
#include "status.hpp"

#define REPRESENTER_JOIN(a, b, c) a##_##b##_##c
#define REPRESENTER_SYMBOL(operation, type, isa) REPRESENTER_JOIN(representer_##operation, type, isa)
#define REPRESENTER_ENTRY(operation, type, Args, ...)                                                              \
    extern "C" __attribute__((visibility("default"))) int                                                          \
    REPRESENTER_SYMBOL(operation, type, REPRESENTER_ISA)(const Args* args) {                                       \
        return representer::REPRESENTER_ISA::guarded(                                                              \
            args, #operation, [](const Args& checked) { return representer::REPRESENTER_ISA::__VA_ARGS__(checked); });        \
    }
// Export a function template for float and double; the second macro adds the direction.
#define REPRESENTER_ENTRIES(operation, Args, call)              \
    REPRESENTER_ENTRY(operation, f32, Args, call<float>)        \
    REPRESENTER_ENTRY(operation, f64, Args, call<double>)
#define REPRESENTER_DIRECTIONS(operation, Args, call)                        \
    REPRESENTER_ENTRY(operation##_forward, f32, Args, call<float, false>)    \
    REPRESENTER_ENTRY(operation##_forward, f64, Args, call<double, false>)   \
    REPRESENTER_ENTRY(operation##_backward, f32, Args, call<float, true>)    \
    REPRESENTER_ENTRY(operation##_backward, f64, Args, call<double, true>)
