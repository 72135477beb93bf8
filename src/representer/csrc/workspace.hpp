// Aligned scratch memory, and how rows are shared out.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace representer {
namespace REPRESENTER_ISA {

template <class Real> class Workspace {
  public:
    // Zeroed, unless what is packed into it fills it.
    explicit Workspace(int64_t count, bool zeroed = true) {
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

// Part `i` of `parts` nearly equal parts of the rows 0..n-1.
inline int64_t share(int64_t n, int64_t parts, int64_t i) { return n * i / parts; }

}  // namespace REPRESENTER_ISA
}  // namespace representer
