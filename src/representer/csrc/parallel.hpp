// Parallel loops whose iterations may throw.
#pragma once

#include <cstdint>
#include <exception>
#include <mutex>

#include "team.hpp"
#include "workspace.hpp"

namespace representer {
namespace REPRESENTER_ISA {

enum Schedule { STATIC, DYNAMIC };  // STATIC: one contiguous chunk of iterations per thread

// Call body(i) for i = 0 ... count - 1 on up to `threads` threads. The first exception is rethrown after the
// loop: an exception that leaves a parallel region terminates the process.
template <Schedule SCHEDULE = STATIC, class Body> void parallel_for(int64_t count, int64_t threads, Body body) {
    const int team = int(count < threads ? count : threads);
    // noinline: one copy of the code, so that rounding does not depend on the number of threads
    const auto run = [&](int64_t i) __attribute__((noinline)) { body(i); };
    if (team <= 1) {
        for (int64_t i = 0; i < count; ++i) run(i);
        return;
    }
    std::exception_ptr error;
    std::mutex writes_error;
    const auto attempt = [&](int64_t i) {
        try {
            run(i);
        } catch (...) {
            const std::lock_guard<std::mutex> lock(writes_error);
            if (!error) error = std::current_exception();
        }
    };
#if defined(REPRESENTER_STD_THREADS)
    std::atomic<int64_t> next{0};
    in_threads(team, [&](int64_t thread, int64_t) {
        if constexpr (SCHEDULE == DYNAMIC) {
            for (int64_t i; (i = next++) < count;) attempt(i);
        } else {
            for (int64_t i = share(count, team, thread); i < share(count, team, thread + 1); ++i) attempt(i);
        }
    });
#else
    if constexpr (SCHEDULE == DYNAMIC) {
#pragma omp parallel for num_threads(team) schedule(dynamic, 1)
        for (int64_t i = 0; i < count; ++i) attempt(i);
    } else {
#pragma omp parallel for num_threads(team) schedule(static)
        for (int64_t i = 0; i < count; ++i) attempt(i);
    }
#endif
    if (error) std::rethrow_exception(error);
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
