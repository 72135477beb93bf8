"""The equations of the papers: pure torch, one file per family, definitions and recurrences."""

from representer.functional.activations import (
    GREENS,
    NONLINEARITIES,
    Nonlinearity,
    activation_regularization,
    edge_activation,
    green_function,
    kbrn_scan,
    kernel_activation,
    nonlinearity,
)
from representer.functional.rkm import (
    Cell,
    gated_scan,
    gated_scan_definition,
    gaussian_kernel_definition,
    held_gates,
    ngram_product,
    ngram_product_definition,
    ngram_windows,
    recurrent_kernel_definition,
    rkm_scan,
    separable_convolution,
    separable_convolution_definition,
    wavelet_factors,
    wavelet_filters,
    wavelet_filters_definition,
    wavelet_times,
)
from representer.functional.strings import (
    StringChain,
    string_kernel,
    string_kernel_definition,
    string_scan,
    string_states,
)
from representer.functional.walks import (
    child_positions,
    local_kernel_definition,
    relabel,
    tree_depths,
    tree_kernel_definition,
    tree_scan,
    walk_aggregate,
    walk_aggregate_definition,
    walk_kernel_definition,
    walk_rounds,
    walk_states,
    walks_end,
)

__all__ = [
    "GREENS", "NONLINEARITIES", "Cell", "Nonlinearity", "StringChain", "activation_regularization",
    "child_positions", "edge_activation", "gated_scan", "gated_scan_definition",
    "gaussian_kernel_definition", "green_function", "held_gates", "kbrn_scan", "kernel_activation",
    "local_kernel_definition", "ngram_product", "ngram_product_definition", "ngram_windows",
    "nonlinearity", "recurrent_kernel_definition", "relabel", "rkm_scan", "separable_convolution",
    "separable_convolution_definition", "string_kernel", "string_kernel_definition", "string_scan",
    "string_states", "tree_depths", "tree_kernel_definition", "tree_scan", "walk_aggregate",
    "walk_aggregate_definition", "walk_kernel_definition", "walk_rounds", "walk_states",
    "walks_end", "wavelet_factors", "wavelet_filters", "wavelet_filters_definition",
    "wavelet_times",
]  # fmt: skip

__dir__ = __all__.copy  # what tab completion shows
