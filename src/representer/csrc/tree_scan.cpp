// tree_scan: the C entry points.
#include "tree_scan.hpp"

#include "entry.hpp"

REPRESENTER_DIRECTIONS(trees, RepresenterTrees, trees)
