// edge_activation: the C entry points.
#include "edge_activation.hpp"

#include "entry.hpp"

REPRESENTER_ENTRIES(edges_forward, RepresenterEdges, edges_forward)
REPRESENTER_ENTRIES(edges_backward, RepresenterEdges, edges_backward)
