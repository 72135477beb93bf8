// Matrix products and transposes: the C entry points.
#include "gemm.hpp"

#include "entry.hpp"

REPRESENTER_ENTRIES(product, RepresenterProduct, product)
REPRESENTER_ENTRIES(transposed, RepresenterProduct, transposed)

namespace representer {
namespace REPRESENTER_ISA {

template void product_rows(const RepresenterProduct&, int, const float*, int64_t, int64_t);
template void product_rows(const RepresenterProduct&, int, const double*, int64_t, int64_t);

}  // namespace REPRESENTER_ISA
}  // namespace representer
