// Peak throughput of the machine: the C entry points.
#include "machine.hpp"

#include "entry.hpp"

REPRESENTER_ENTRIES(arithmetic, RepresenterProbe, arithmetic)
REPRESENTER_ENTRIES(memory, RepresenterProbe, memory)
