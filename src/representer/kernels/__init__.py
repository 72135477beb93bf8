"""Exact kernels, which the layers of ``nn`` evaluate against learned references."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from representer.checks import installed
from representer.kernels.composition import Activated, Cosine, Embedded, Power, Product, Scaled, Sum
from representer.kernels.convolution_kernel import ConvolutionKernel
from representer.kernels.cross_spectral_kernel import CrossSpectralKernel
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
    from representer.kernels.gaussian_process import GaussianProcessKernel
    from representer.kernels.gpytorch_kernel import GPyTorchKernel

    KERNELS: dict[str, Callable[[], Kernel]]

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


# An example of each kernel, on which the tests of the properties of kernels run.
_EXAMPLES: dict[str, Callable[[], Kernel]] = {
    "linear": Linear,
    "polynomial": lambda: Polynomial(3, offset=0.5),
    "gaussian": Gaussian,
    "inverse polynomial": InversePolynomial,
    "string": StringKernel,
    "string, order 3, gaps alone": lambda: StringKernel(3, 0.8, trailing=False),
    "string, added": lambda: StringKernel(3, combine="add"),
    "string, normalized": lambda: StringKernel(normalized=True),
    "string, over the masses": lambda: StringKernel(normalized="exact"),
    "string, tokens": lambda: StringKernel(base="delta"),
    "string, distinct tokens": lambda: StringKernel(base="delta", binary=True),
    "string, tokens, added": lambda: StringKernel(combine="add", base="delta"),
    "string, Gaussian tokens": lambda: StringKernel(base=Gaussian()),
    "deep string": lambda: DeepStringKernel((2, 2)),
    "deep string, Gaussian": lambda: DeepStringKernel((1, 2, 1), (0.3, 0.9, 0.5), Gaussian()),
    "recurrent": RecurrentKernel,
    "recurrent, windows": lambda: RecurrentKernel("polynomial", filter_length=2),
    "sum": lambda: StringKernel(1) + RecurrentKernel("linear"),
    "product": lambda: StringKernel(1) * RecurrentKernel("linear"),
    "activated": lambda: StringKernel().activated(InversePolynomial()),
    "unit diagonal": lambda: StringKernel().cosine(),
    "unit diagonal, activated": lambda: StringKernel().cosine().activated(Gaussian(0.5)),
    "random walk": RandomWalkKernel,
    "random walk, order 3, edges": lambda: RandomWalkKernel(3, 0.5, edges=True),
    "random walk, added": lambda: RandomWalkKernel(3, 0.5, "add"),
    "random walk, activated neighbors": lambda: RandomWalkKernel(3, nonlinear="polynomial"),
    "random walk, Gaussian nodes": lambda: RandomWalkKernel(base=Gaussian()),
    "random walk, labels": lambda: RandomWalkKernel(3, base="delta", edges=True),
    "deep graph": DeepGraphKernel,
    "deep graph, added": lambda: DeepGraphKernel(2, 2, 0.3, "add", "exponential", edges=True),
    "Weisfeiler-Lehman, labels": WeisfeilerLehmanKernel,
    "Weisfeiler-Lehman, labels of edges": lambda: WeisfeilerLehmanKernel(
        RandomWalkKernel(2), 2, edges=True
    ),
    "graphs, composed, labels": lambda: (
        (RandomWalkKernel(2) + WeisfeilerLehmanKernel()).cosine().activated(Gaussian())
    ),
    "trees": TreeKernel,
    "trees, ordered, order 3": lambda: TreeKernel(3, 0.7, ordered=True),
    "trees, labels": lambda: TreeKernel(1) + TreeKernel(2, 0.9, ordered=True),
    "trees, subsets, labels": SubsetTreeKernel,
    "trees, parts, labels": lambda: PartialTreeKernel(0.6, 0.5),
}


@cache
def _examples() -> dict[str, Callable[[], Kernel]]:
    return _EXAMPLES | installed("kernels")


def __getattr__(name: str) -> Any:
    if name == "KERNELS":  # on first access, since the packages of other kernels import this one
        return _examples()
    if name == "GaussianProcessKernel":  # which imports a tenth of a second of scikit-learn
        from representer.kernels.gaussian_process import GaussianProcessKernel

        return GaussianProcessKernel
    if name == "GPyTorchKernel":  # which needs gpytorch
        from representer.kernels.gpytorch_kernel import GPyTorchKernel

        return GPyTorchKernel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
