// text_features: the C entry points.
#include "entry.hpp"

#include "text_features.hpp"

REPRESENTER_ENTRIES(text_features, RepresenterTexts, text_features)
