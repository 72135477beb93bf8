// Aligned scratch buffers, pages of large arrays, and the partition of rows.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#elif defined(_WIN32)
#include <malloc.h>
#endif

namespace representer {
namespace REPRESENTER_ISA {

// Ask for pages of 2 MiB for an array that is about to be written. malloc of glibc maps arrays of more than 32 MiB anew
// each time, and the first write into each page of 4 KiB takes several times as long as the writing itself. Smaller
// arrays mostly reuse memory, for which large pages gain nothing.
template <class Real> void use_large_pages([[maybe_unused]] Real* array, [[maybe_unused]] int64_t count) {
#if defined(MADV_HUGEPAGE)
    constexpr int64_t PAGE = 1 << 21, LARGE = 1 << 25;
    const int64_t start = int64_t(array), first = (start + PAGE - 1) / PAGE * PAGE, bytes = count * int64_t(sizeof(Real));
    if (array && bytes > LARGE) madvise(reinterpret_cast<void*>(first), (start + bytes) / PAGE * PAGE - first, MADV_HUGEPAGE);
#endif
}

#if defined(_WIN32) // whose C library has no aligned_alloc
inline void* allocate(int64_t bytes) { return _aligned_malloc(bytes, 64); }
inline void release(void* data) { _aligned_free(data); }
#else
inline void* allocate(int64_t bytes) { return std::aligned_alloc(64, bytes); }
inline void release(void* data) { std::free(data); }
#endif

template <class Real> class Workspace {
  public:
    // Pass zeroed = false only if every entry is written before it is read.
    explicit Workspace(int64_t count, bool zeroed = true) {
        if (count < 0 || count > PTRDIFF_MAX / 16) throw std::bad_alloc();
        const int64_t bytes = (count * int64_t(sizeof(Real)) + 63) / 64 * 64;
        data_ = count ? static_cast<Real*>(allocate(bytes)) : nullptr;
        if (count && !data_) throw std::bad_alloc();
        use_large_pages(data_, count);
        if (count && zeroed) std::memset(data_, 0, bytes);
    }
    ~Workspace() { release(data_); }
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;
    Real* at(int64_t i) const { return data_ + i; }

  private:
    Real* data_ = nullptr;
};

// Return the first row of part `i` when n rows are split into `parts` nearly equal parts.
inline int64_t share(int64_t n, int64_t parts, int64_t i) { return n * i / parts; }

}  // namespace REPRESENTER_ISA
}  // namespace representer
