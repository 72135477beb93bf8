// Gram matrix of the string kernel: the C entry points.
#include "string_gram.hpp"

#include "entry.hpp"

REPRESENTER_ENTRIES(string_gram, RepresenterGram, string_gram)
