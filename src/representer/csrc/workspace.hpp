// Aligned scratch buffers, and the partition of rows.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace representer {
namespace REPRESENTER_ISA {

template <class Real> class Workspace {
  public:
    // Pass zeroed = false only if every entry is written before it is read.
    explicit Workspace(int64_t count, bool zeroed = true) {
        if (count < 0 || count > PTRDIFF_MAX / 16) throw std::bad_alloc();
        const int64_t bytes = (count * int64_t(sizeof(Real)) + 63) / 64 * 64;
        data_ = count ? static_cast<Real*>(std::aligned_alloc(64, bytes)) : nullptr;
        if (count && !data_) throw std::bad_alloc();
        if (count && zeroed) std::memset(data_, 0, bytes);
    }
    ~Workspace() { std::free(data_); }
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
