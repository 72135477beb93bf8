"""Exact kernels, which the layers of ``nn`` evaluate against learned references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from representer.kernels.composition import Activated, Cosine, Embedded, Power, Product, Scaled, Sum
from representer.kernels.convolution_kernel import ConvolutionKernel
from representer.kernels.cross_spectral_kernel import CrossSpectralKernel
from representer.kernels.gaussian_process import GaussianProcessKernel
from representer.kernels.gram import GramTransformer, Nystroem, gram
from representer.kernels.kernel import Kernel
from representer.kernels.kmer_kernel import KmerKernel
from representer.kernels.learned_kernel import LearnedKernel, LearnedUnit
from representer.kernels.point_kernels import (
    Gaussian,
    InversePolynomial,
    Linear,
    PointKernel,
    Polynomial,
)
from representer.kernels.recurrent_kernel import RecurrentKernel
from representer.kernels.string_kernel import DeepStringKernel, StringKernel
from representer.kernels.subtree_kernel import SubtreeKernel
from representer.kernels.text_kernel import NgramKernel, TextKernel
from representer.kernels.tree_kernels import PartialTreeKernel, SubsetTreeKernel, TreeKernel
from representer.kernels.two_sample import TwoSample, two_sample_test
from representer.kernels.walk_kernels import DeepGraphKernel, RandomWalkKernel
from representer.kernels.weisfeiler_lehman_kernel import WeisfeilerLehmanKernel

if TYPE_CHECKING:
    from representer.kernels.examples import KERNELS
    from representer.kernels.gpytorch_kernel import GPyTorchKernel

__all__ = [
    "KERNELS", "Activated", "ConvolutionKernel", "Cosine", "CrossSpectralKernel", "DeepGraphKernel",
    "DeepStringKernel", "Embedded", "GPyTorchKernel", "Gaussian", "GaussianProcessKernel",
    "GramTransformer", "InversePolynomial", "Kernel", "KmerKernel", "LearnedKernel", "LearnedUnit",
    "Linear", "NgramKernel", "Nystroem", "PartialTreeKernel", "PointKernel", "Polynomial", "Power",
    "Product", "RandomWalkKernel", "RecurrentKernel", "Scaled", "StringKernel", "SubsetTreeKernel",
    "SubtreeKernel", "Sum", "TextKernel", "TreeKernel", "TwoSample", "WeisfeilerLehmanKernel",
    "gram", "two_sample_test",
]  # fmt: skip

__dir__ = __all__.copy  # what tab completion shows


def __getattr__(name: str) -> Any:
    if name == "KERNELS":  # on first access, since the packages of other kernels import this one
        from representer.kernels.examples import kernels_with_installed

        return kernels_with_installed()
    if name == "GPyTorchKernel":  # which needs gpytorch
        from representer.kernels.gpytorch_kernel import GPyTorchKernel

        return GPyTorchKernel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
