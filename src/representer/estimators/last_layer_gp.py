"""A Gaussian process on the concatenated last hidden layers of an ensemble."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from representer.errors import CheckpointError
from representer.storage.fields import from_values
from representer.storage.files import parse_json
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder
from representer.storage.tensor_file import Form, Forms, require_same_forms

FILE = "process.safetensors"
MOST = 1500  # maximum number of training molecules; the cost grows with their cube
BLOCK = 4096  # molecules to predict at a time


@dataclass(frozen=True)
class _Kernels:
    """The numbers in the header of the file."""

    kernels: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class LastLayerGP:
    r"""A Gaussian process on features learned by the networks.

    .. math::
        k(G, G') = c \exp(-\|\phi(G) - \phi(G')\|^2 / 2 \ell^2) + \sigma^2 [G = G']

    with :math:`\phi` the last hidden layers of all members, each feature standardized. Every target
    has its own c, ℓ and σ.

    Args:
        layers: φ of molecules of the training part ``(n, F)``.
        values: Their targets ``(n, K)``, NaN where there is none.
        kernels: c, ℓ² and σ² of each target, relative to a target of deviation 1.
    """

    layers: NDArray[np.float32]
    values: NDArray[np.float64]
    kernels: tuple[tuple[float, float, float], ...]

    def predict(
        self, layers: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and variance for molecules of φ ``(N, F)``: ``(N, K)``, noise included."""
        scaled = self._scaled(layers)
        found = np.empty((2, len(layers), len(self.kernels)))
        for start in range(0, len(layers), BLOCK):
            rows = slice(start, start + BLOCK)
            for k, model in enumerate(self._models):
                found[:, rows, k] = model.predict(scaled[rows], return_std=True)
        return found[0], found[1] ** 2

    def write(self, run: RunFolder) -> None:
        """Write what `read` reads into a run folder."""
        tensors = {"layers": torch.from_numpy(self.layers), "values": torch.from_numpy(self.values)}
        run.write_tensors(FILE, tensors, {"kernels": json.dumps(self.kernels)})

    @classmethod
    def read(cls, files: RunFiles, width: int, targets: int) -> LastLayerGP:
        """Return what `write` wrote.

        Args:
            files: The run.
            width: F, features of the last layers of all members.
            targets: K.

        Raises:
            DataError: If it is missing.
            CheckpointError: If it is damaged.
        """

        def check(forms: Forms) -> None:
            rows = next(iter(forms.get("layers", Form((0,), torch.float32)).shape), 0)
            if not 0 < rows <= MOST:
                raise ValueError(f"it keeps {rows} molecules; expected 1 to {MOST:,}")
            layers, values = (
                Form((rows, width), torch.float32),
                Form((rows, targets), torch.float64),
            )
            require_same_forms(forms, {"layers": layers, "values": values})

        tensors, metadata = files.tensors(FILE, check, is_nan_allowed=True)
        text = metadata.get("kernels", "").encode("utf-8")
        kernels = files.parsed(FILE, lambda: from_values(_Kernels, {"kernels": parse_json(text)}))
        layers, values = tensors["layers"].numpy(), tensors["values"].numpy()
        is_sound = len(kernels.kernels) == targets and np.isfinite(layers).all()
        if (
            not is_sound
            or (np.asarray(kernels.kernels) <= 0).any()
            or np.isnan(values).all(0).any()
        ):
            raise CheckpointError(
                f"{files.folder / FILE} does not contain the Gaussian process of this model"
            )
        return cls(layers, values, kernels.kernels)

    def _scaled(self, layers: NDArray[np.float32]) -> NDArray[np.float64]:
        own = self.layers.astype(np.float64)
        deviations = own.std(0)
        alive = deviations > 1e-6  # constant features carry no information
        scaled = (layers - own.mean(0)) / np.where(alive, deviations, 1.0)
        return scaled[:, alive] if alive.any() else 0 * scaled  # or all features are constant

    @cached_property
    def _models(self) -> list[Any]:
        scaled = self._scaled(self.layers)
        return [
            _fitted(scaled, self.values[:, k], _kernel(*kernel), search=False)
            for k, kernel in enumerate(self.kernels)
        ]


def fit_gp(layers: NDArray[np.float32], values: NDArray[np.float64], seed: int = 0) -> LastLayerGP:
    """Fit a Gaussian process to training molecules by maximum likelihood.

    Args:
        layers: φ of each molecule ``(N, F)``; of more than 1,500, a random subset is used.
        values: Targets ``(N, K)``, NaN where there is none.
        seed: Random seed of the subset.
    """
    rows = np.sort(np.random.default_rng(seed).permutation(len(layers))[:MOST])
    found = LastLayerGP(layers[rows], values[rows], ())
    scaled = found._scaled(found.layers)
    kernels = []
    for k in range(values.shape[1]):
        theta = np.exp(_fitted(scaled, found.values[:, k], _kernel(), search=True).kernel_.theta)
        kernels.append((float(theta[0]), float(theta[1]) ** 2, float(theta[2])))
    return LastLayerGP(found.layers, found.values, tuple(kernels))


def _kernel(scale: float = 1.0, square: float = 100.0, noise: float = 0.1) -> Any:
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    near = RBF(square**0.5, (0.1, 1e4))
    return ConstantKernel(scale, (1e-3, 1e5)) * near + WhiteKernel(noise, (1e-4, 10.0))


def _fitted(
    scaled: NDArray[np.float64], values: NDArray[np.float64], kernel: Any, *, search: bool
) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor

    rows = ~np.isnan(values)
    optimizer: Any = "fmin_l_bfgs_b" if search else None
    model: Any = GaussianProcessRegressor(kernel, optimizer=optimizer, normalize_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about searches that end at a bound
        return model.fit(scaled[rows], values[rows])
