"""The equations of the papers: pure torch, one file per family, definitions and recurrences."""

from representer.functional.cell import Cell
from representer.functional.gated_scan import gated_scan, gated_scan_definition
from representer.functional.ngram import ngram_product, ngram_product_definition, ngram_windows
from representer.functional.nonlinearities import NONLINEARITIES, Nonlinearity, nonlinearity
from representer.functional.recurrent_kernel import (
    gaussian_kernel_definition,
    recurrent_kernel_definition,
)
from representer.functional.rkm_scan import rkm_scan

__all__ = [
    "NONLINEARITIES",
    "Cell",
    "Nonlinearity",
    "gated_scan",
    "gated_scan_definition",
    "gaussian_kernel_definition",
    "ngram_product",
    "ngram_product_definition",
    "ngram_windows",
    "nonlinearity",
    "recurrent_kernel_definition",
    "rkm_scan",
]
