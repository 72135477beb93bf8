"""A Gaussian process on the last hidden layers of an ensemble, side by side."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from representer.errors import CheckpointError
from representer.tasks.storage.run_folder import RunFolder

FILE = "process.safetensors"
MOST = 1500  # molecules that it keeps: its work grows with their cube
BLOCK = 4096  # molecules that are asked about at once


@dataclass(frozen=True)
class LastLayerProcess:
    r"""A Gaussian process that compares molecules by what the networks have learned to see.

    .. math::
        k(G, G') = c \exp(-\|\phi(G) - \phi(G')\|^2 / 2 \ell^2) + b\,(1 + m(G)\, m(G'))
            + \sigma^2 [G = G']

    with :math:`\phi` the last hidden layers of all members and m their mean answer, each
    standardised. Every target has its own c, ℓ, σ and b. Far from all molecules it knows, where
    the first term has gone, it answers by a line through the members' answers, and not by the mean
    of the training part.

    Args:
        layers: φ of molecules of the training part ``(n, F)``.
        means: The members' mean answers for them ``(n, K)``.
        values: Their targets ``(n, K)``, NaN where there is none.
        kernels: c, ℓ², σ² and b of each target, relative to a target of deviation 1.
    """

    layers: NDArray[np.float32]
    means: NDArray[np.float64]
    values: NDArray[np.float64]
    kernels: tuple[tuple[float, float, float, float], ...]

    def predict(
        self, layers: NDArray[np.float32], means: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and variance for molecules ``(N, K)``, the noise included.

        Args:
            layers: Their φ ``(N, F)``.
            means: The members' mean answers ``(N, K)``.
        """
        found = np.empty((2, len(layers), len(self.kernels)))
        for k, model in enumerate(self._models):
            inputs = self._inputs(layers, means, k)
            for start in range(0, len(layers), BLOCK):
                rows = slice(start, start + BLOCK)
                found[:, rows, k] = model.predict(inputs[rows], return_std=True)
        return found[0], found[1] ** 2

    def write(self, run: RunFolder) -> None:
        """Write what `read` reads into a run folder."""
        tensors = {
            name: torch.from_numpy(getattr(self, name)) for name in ("layers", "means", "values")
        }
        run.write_tensors(FILE, tensors, {"kernels": json.dumps(self.kernels)})

    @classmethod
    def read(cls, folder: Path) -> LastLayerProcess:
        """Return what `write` wrote.

        Raises:
            CheckpointError: If it is missing or damaged.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(folder / FILE, framework="np") as file:
                kernels = json.loads((file.metadata() or {})["kernels"])
                layers, means, values = map(file.get_tensor, ("layers", "means", "values"))
            of_targets = ((float(c), float(s), float(n), float(b)) for c, s, n, b in kernels)
            return cls(layers, means, values, tuple(of_targets))
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise CheckpointError(f"{folder / FILE} is missing or damaged: {first}") from None

    def _inputs(
        self, layers: NDArray[np.float32], means: NDArray[np.float64], target: int
    ) -> NDArray[np.float64]:
        """Return the features of molecules with the members' answer as the last of them."""
        answers, own = means[:, target, None], self.means[:, target, None]
        return np.hstack(
            [_standardised(layers, self.layers), _standardised(answers, own, keep=True)]
        )

    @cached_property
    def _models(self) -> list[Any]:
        return [
            _fitted(
                self._inputs(self.layers, self.means, k),
                self.values[:, k],
                _kernel(*kernel),
                search=False,
            )
            for k, kernel in enumerate(self.kernels)
        ]


def fit_process(
    layers: NDArray[np.float32],
    means: NDArray[np.float64],
    values: NDArray[np.float64],
    seed: int = 0,
) -> LastLayerProcess:
    """Return the process of greatest likelihood on training molecules.

    Args:
        layers: φ of each ``(N, F)``; of more than 1,500, as many are drawn.
        means: The members' mean answers ``(N, K)``.
        values: Targets ``(N, K)``, NaN where there is none.
        seed: Of the draw.
    """
    rows = np.sort(np.random.default_rng(seed).permutation(len(layers))[:MOST])
    found = LastLayerProcess(layers[rows], means[rows], values[rows], ())
    kernels = []
    for k in range(values.shape[1]):
        inputs = found._inputs(found.layers, found.means, k)
        c, length, b, noise = np.exp(
            _fitted(inputs, found.values[:, k], _kernel(), search=True).kernel_.theta
        ).tolist()
        kernels.append((c, length**2, noise, b))
    return replace(found, kernels=tuple(kernels))


def _standardised(x: Any, of: Any, *, keep: bool = False) -> NDArray[np.float64]:
    own = of.astype(np.float64)
    deviations = own.std(0)
    alive = deviations > 1e-6  # a unit that is off for all molecules says nothing
    scaled = (x - own.mean(0)) / np.where(alive, deviations, 1.0)
    return scaled if keep else scaled[:, alive]


def _kernel(
    scale: float = 1.0, square: float = 100.0, noise: float = 0.1, trend: float = 1.0
) -> Any:
    """Return the kernel of inputs whose last feature is the members' answer."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

    class Near(RBF):
        """Of all features but the last."""

        def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
            return super().__call__(X[:, :-1], None if Y is None else Y[:, :-1], eval_gradient)

    class Trend(DotProduct):
        """Of the last feature."""

        def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
            return super().__call__(X[:, -1:], None if Y is None else Y[:, -1:], eval_gradient)

        def diag(self, X: Any) -> Any:
            return super().diag(X[:, -1:])

    near = ConstantKernel(scale, (1e-3, 1e5)) * Near(square**0.5, (0.1, 1e4))
    line = ConstantKernel(trend, (1e-4, 1e3)) * Trend(1.0, "fixed")
    return near + line + WhiteKernel(noise, (1e-4, 10.0))


def _fitted(
    scaled: NDArray[np.float64], values: NDArray[np.float64], kernel: Any, *, search: bool
) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor

    rows = ~np.isnan(values)
    optimizer: Any = "fmin_l_bfgs_b" if search else None
    model: Any = GaussianProcessRegressor(kernel, optimizer=optimizer, normalize_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a search that ends at a bound
        return model.fit(scaled[rows], values[rows])
