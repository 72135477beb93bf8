// How the entry points report errors: no exception leaves the library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <stdexcept>

namespace representer {
namespace REPRESENTER_ISA {

enum Status { OK, UNSUPPORTED, NO_MEMORY, FAILED };  // the twin is in representer/ops/core.py

constexpr int32_t MOST_THREADS = 1024;  // a larger number is a mistake, and OpenMP crashes on huge ones

// Runs call(args), a Status, with a sane number of threads.
template <class Args, class Call> int guarded(Args args, Call call) noexcept {
    args.threads = std::clamp<int32_t>(args.threads, 1, MOST_THREADS);
    try {
        return call(args);
    } catch (const std::bad_alloc&) {
        return NO_MEMORY;
    } catch (const std::length_error&) {  // of a std::vector
        return NO_MEMORY;
    } catch (...) {
        return FAILED;
    }
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
