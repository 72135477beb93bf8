"""The equations of the papers: pure torch, one file per family, definitions and recurrences."""

from representer.functional.activation_regularization import activation_regularization
from representer.functional.cell import Cell
from representer.functional.gated_scan import gated_scan, gated_scan_definition
from representer.functional.graph_walk import relabel, walk_states, walks_end
from representer.functional.kbrn_scan import kbrn_scan
from representer.functional.kernel_activation import GREENS, green_function, kernel_activation
from representer.functional.ngram import ngram_product, ngram_product_definition, ngram_windows
from representer.functional.nonlinearities import NONLINEARITIES, Nonlinearity, nonlinearity
from representer.functional.recurrent_kernel import (
    gaussian_kernel_definition,
    recurrent_kernel_definition,
)
from representer.functional.rkm_scan import rkm_scan
from representer.functional.separable_convolution import (
    separable_convolution,
    separable_convolution_definition,
)
from representer.functional.string_chain import StringChain
from representer.functional.string_kernel import string_kernel, string_kernel_definition
from representer.functional.string_scan import string_scan, string_states
from representer.functional.walk_aggregate import walk_aggregate, walk_aggregate_definition
from representer.functional.walk_kernel import local_kernel_definition, walk_kernel_definition
from representer.functional.walk_rounds import walk_rounds
from representer.functional.wavelet import (
    wavelet_factors,
    wavelet_filters,
    wavelet_filters_definition,
    wavelet_times,
)

__all__ = [
    "GREENS",
    "NONLINEARITIES",
    "Cell",
    "Nonlinearity",
    "StringChain",
    "activation_regularization",
    "gated_scan",
    "gated_scan_definition",
    "gaussian_kernel_definition",
    "green_function",
    "kbrn_scan",
    "kernel_activation",
    "local_kernel_definition",
    "ngram_product",
    "ngram_product_definition",
    "ngram_windows",
    "nonlinearity",
    "recurrent_kernel_definition",
    "relabel",
    "rkm_scan",
    "separable_convolution",
    "separable_convolution_definition",
    "string_kernel",
    "string_kernel_definition",
    "string_scan",
    "string_states",
    "walk_aggregate",
    "walk_aggregate_definition",
    "walk_kernel_definition",
    "walk_rounds",
    "walk_states",
    "walks_end",
    "wavelet_factors",
    "wavelet_filters",
    "wavelet_filters_definition",
    "wavelet_times",
]
