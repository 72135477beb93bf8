// Error codes of the entry points: no exception leaves the library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <stdexcept>

namespace representer {
namespace REPRESENTER_ISA {

enum Status { OK, UNSUPPORTED, NO_MEMORY, FAILED };  // mirrored in representer/ops/core.py

constexpr int32_t MOST_THREADS = 1024;  // anything larger is a mistake, and OpenMP crashes on huge values

// Return the Status of call(args), after clamping the number of threads.
template <class Args, class Call> int guarded(Args args, Call call) noexcept {
    args.threads = std::clamp<int32_t>(args.threads, 1, MOST_THREADS);
    try {
        return call(args);
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
