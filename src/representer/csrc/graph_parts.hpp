// Partition a batch of graphs into parts with no edges between them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace representer {
namespace REPRESENTER_ISA {

// Contiguous nodes and edges without edges to other parts.
struct Part {
    int64_t node, nodes, edge, edges;
};

// Split the graph into parts of at least `least` nodes where the order of the edges allows it.
inline std::vector<Part> parts_of(const int64_t* index, int64_t nodes, int64_t edges, int64_t least) {
    std::vector<int64_t> lowest(edges + 1, nodes);  // smallest node index among the edges from e onward
    for (int64_t e = edges - 1; e >= 0; --e) lowest[e] = std::min({lowest[e + 1], index[e], index[edges + e]});
    std::vector<Part> parts;
    int64_t node = 0, edge = 0, highest = -1;
    for (int64_t e = 0; e < edges; ++e) {
        if (highest < lowest[e] && highest + 1 - node >= least && nodes - highest > least) {
            parts.push_back({node, highest + 1 - node, edge, e - edge});
            node = highest + 1, edge = e;
        }
        highest = std::max({highest, index[e], index[edges + e]});
    }
    parts.push_back({node, nodes - node, edge, edges - edge});
    return parts;
}

}  // namespace REPRESENTER_ISA
}  // namespace representer
