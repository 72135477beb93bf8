// walk_aggregate: the C entry points.
#include "walk_aggregate.hpp"

#include "entry.hpp"

REPRESENTER_DIRECTIONS(walk, RepresenterWalk, walk)

namespace representer {
namespace REPRESENTER_ISA {

template int walk<float, false>(const RepresenterWalk&);  // for walk_rounds
template int walk<float, true>(const RepresenterWalk&);
template int walk<double, false>(const RepresenterWalk&);
template int walk<double, true>(const RepresenterWalk&);

}  // namespace REPRESENTER_ISA
}  // namespace representer
