// A team of threads with barriers: those of OpenMP, or, in a build for the thread sanitizer, those of C++, since the
// sanitizer does not see how OpenMP synchronizes and would report every loop.
#pragma once

#include <cstdint>

#if defined(REPRESENTER_STD_THREADS)
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>
#elif defined(_OPENMP)
#include <omp.h>
#endif

namespace representer {
namespace REPRESENTER_ISA {

#if defined(REPRESENTER_STD_THREADS)
#define REPRESENTER_BARRIER own_barrier->wait();

class Barrier {
  public:
    explicit Barrier(int64_t team) : team(team) {}
    void wait() {
        std::unique_lock<std::mutex> lock(mutex);
        const int64_t own = round;
        if (++arrived == team) {
            arrived = 0, ++round;
            changed.notify_all();
        } else {
            changed.wait(lock, [&] { return round != own; });
        }
    }

  private:
    const int64_t team;
    int64_t arrived = 0, round = 0;
    std::mutex mutex;
    std::condition_variable changed;
};
inline thread_local Barrier* own_barrier = nullptr;

// Call body(thread, team) on each thread of a team.
template <class Body> void in_threads(int64_t team, Body body) {
    Barrier barrier(team);
    const auto run = [&](int64_t thread) {
        Barrier* const outer = own_barrier;
        own_barrier = &barrier;
        body(thread, team);
        own_barrier = outer;
    };
    std::vector<std::thread> others;
    for (int64_t i = 1; i < team; ++i) others.emplace_back(run, i);
    run(0);
    for (std::thread& thread : others) thread.join();
}
#elif defined(_OPENMP)
#define REPRESENTER_BARRIER _Pragma("omp barrier")

// OpenMP may provide a smaller team than requested.
template <class Body> void in_threads(int64_t team, Body body) {
#pragma omp parallel num_threads(int(team)) if (team > 1)
    body(omp_get_thread_num(), omp_get_num_threads());
}
#else
#define REPRESENTER_BARRIER

template <class Body> void in_threads(int64_t, Body body) { body(0, 1); }
#endif

}  // namespace REPRESENTER_ISA
}  // namespace representer
