"""scikit-learn: its tests of kernels of Gaussian processes and of regression with them."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels as theirs
from sklearn.gaussian_process.tests import test_gpr, test_kernels

from representer.kernels import Gaussian, GaussianProcessKernel, Polynomial, StringKernel

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore:The optimal value found"),  # at a bound
]
TEXTS = ["abcab", "bca", "aabbc", "cab", "abc"]
VECTORS = {
    "gaussian": GaussianProcessKernel(Gaussian(2.0), learn={"bandwidth": (0.1, 100.0)}),
    "fixed": GaussianProcessKernel(Gaussian(0.5)),
    "polynomial": GaussianProcessKernel(
        Polynomial(2, offset=2.0), learn={"offset": (0.1, 100.0), "scale": (0.1, 100.0)}
    ),
    "composed": theirs.ConstantKernel(2.0)
    * GaussianProcessKernel(Gaussian(2.0), learn={"bandwidth": (0.1, 100.0)}),
    "control RBF": theirs.RBF(2.0),
}
TEXT = GaussianProcessKernel(
    StringKernel(2, 0.5, base="delta").cosine(), learn={"kernel__decay": (0.1, 100.0)}
)


def taking(module: Any, *names: str) -> dict[str, Any]:
    """Return the tests of a module that take these arguments."""
    tests = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    return {n: t for n, t in tests.items() if tuple(inspect.signature(t).parameters) == names}


def cases(module: Any, kernels: dict[str, Any]) -> list[Any]:
    """Return the tests of one kernel, with the kernels that scikit-learn would run them with."""
    found = []
    for test, function in taking(module, "kernel").items():
        (given,) = (mark.args[1] for mark in function.pytestmark if mark.name == "parametrize")
        has_fixed = any(not len(kernel.theta) for kernel in given)
        for name, kernel in kernels.items():
            if not (len(kernel.theta) or has_fixed or module is test_kernels):
                continue
            if test == "test_kernel_stationary" and not kernel.is_stationary():
                continue
            if test == "test_kernel_theta" and isinstance(kernel, theirs.KernelOperator):
                continue
            found.append(pytest.param(test, name, id=f"{test}-{name}"))
    return found


@pytest.mark.parametrize(("test", "name"), cases(test_kernels, {**VECTORS, "texts": TEXT}))
def test_of_a_kernel(
    test: str, name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    kernel: Any = TEXT if name == "texts" else VECTORS[name]
    if name == "texts":
        monkeypatch.setattr(test_kernels, "X", np.array(TEXTS, dtype=object))
        monkeypatch.setattr(test_kernels, "Y", np.array([*TEXTS, "b"], dtype=object))
    if test == "test_kernel_theta" and getattr(kernel, "learn", None):
        reason = (
            "it reads hyperparameters from arguments NAME and NAME_bounds; here `learn` names them"
        )
        request.applymarker(pytest.mark.xfail(raises=AssertionError, strict=True, reason=reason))
    taking(test_kernels, "kernel")[test](kernel)


REGRESSION = {n: k for n, k in VECTORS.items() if n in ("gaussian", "fixed", "control RBF")}


@pytest.mark.parametrize(("test", "name"), cases(test_gpr, REGRESSION))
def test_of_regression(test: str, name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        taking(test_gpr, "kernel")[test](REGRESSION[name])
