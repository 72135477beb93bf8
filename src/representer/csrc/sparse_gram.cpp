// sparse_gram: the C entry points.
#include "entry.hpp"

#include "sparse_gram.hpp"

REPRESENTER_ENTRIES(sparse_gram, RepresenterColumns, sparse_gram)
