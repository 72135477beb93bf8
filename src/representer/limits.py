"""Upper limits of sizes and counts in command-line options and run folders.

Larger values would exhaust memory or time before anything is computed.
"""

from __future__ import annotations

import os

LARGEST_INTEGER = 2**53  # every JSON parser represents it exactly

_SIZE, _LAYERS = 2**20, 256
LIMITS: dict[str, int] = {
    "vocabulary_size": 2**27,
    "embedding_size": _SIZE,
    "hidden_size": _SIZE,
    "head_size": _SIZE,
    "input_size": _SIZE,
    "in_channels": _SIZE,
    "num_channels": _SIZE,
    "num_classes": _SIZE,
    "outputs": _SIZE,
    "edge_dim": 4096,
    "num_layers": _LAYERS,
    "depth": _LAYERS,
    "members": 100,
    "order": 64,
    "filter_length": 2**14,
    "dilation": 2**12,
    "stride": _SIZE,
    "samples": 2**26,
    "max_length": 10**9,
    "batch_size": 10**9,
    "epochs": 10**9,
    "length": 10**9,
    "repeats": 10**6,
    "tokens": 10**9,
    "limit": 10**9,
    "top": 10**6,
    "threads": max(64, 4 * (os.cpu_count() or 1)),  # many more can crash the process
    "workers": max(64, 4 * (os.cpu_count() or 1)),
}
