// Error codes of the entry points: no exception leaves the library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <stdexcept>

#include "valid.hpp"

namespace representer {
namespace REPRESENTER_ISA {

enum Status { OK, UNSUPPORTED, NO_MEMORY, FAILED };  // mirrored in representer/ops/core.py

constexpr int32_t MOST_THREADS = 1024;  // anything larger is a mistake, and OpenMP crashes on huge values

// Return the Status of call(args), after clamping the number of threads and checking the rest.
template <class Args, class Call> int guarded(const Args* given, const char* operation, Call call) noexcept {
    if (!given) return UNSUPPORTED;
    Args args = *given;
    args.threads = std::clamp<int32_t>(args.threads, 1, MOST_THREADS);
    try {
        return is_valid(args, operation) ? call(args) : int(UNSUPPORTED);
    } catch (const std::bad_alloc&) {
        return NO_MEMORY;
    } catch (const std::length_error&) {  // from std::vector
        return NO_MEMORY;
    } catch (...) {
        return FAILED;
    }
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
