"""Optional packages, and what needs them."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from representer.errors import MissingExtraError


@dataclass(frozen=True)
class Package:
    """An optional dependency.

    Attributes:
        name: As installed.
        module: As imported.
        extra: The extra that installs it.
        megabytes: Approximate installed size, including its dependencies.
        purpose: What does not work without it.
    """

    name: str
    module: str
    extra: str
    megabytes: int
    purpose: str


PACKAGES = (
    Package("jsonargparse", "jsonargparse", "train", 6, "options of the commands"),
    Package("accelerate", "accelerate", "train", 25, "training"),
    Package("huggingface_hub", "huggingface_hub", "train", 5, "the Hugging Face Hub"),
    Package("safetensors", "safetensors", "train", 2, "saving weights"),
    Package("scikit-learn", "sklearn", "train", 165, "baselines and scores per class"),
    Package("matplotlib", "matplotlib", "train", 80, "pictures in reports"),
    Package("jinja2", "jinja2", "train", 2, "reports"),
    Package("tqdm", "tqdm", "train", 1, "the progress bar"),
    Package("pyarrow", "pyarrow", "train", 170, "reading Parquet"),
    Package("python-calamine", "python_calamine", "train", 2, "reading workbooks"),
    Package("joblib", "joblib", "kernels", 2, "Gram matrices in parallel"),
    Package("torch_geometric", "torch_geometric", "graph", 30, "graph layers and kernels"),
    Package("rdkit", "rdkit", "graph", 110, "reading molecules"),
    Package("mne", "mne", "signals", 60, "reading recordings of the brain"),
    Package("tensorboard", "tensorboard", "track", 55, "logging metrics to TensorBoard"),
    Package("mlflow-skinny", "mlflow", "track", 40, "logging metrics to MLflow"),
    Package("fastapi", "fastapi", "serve", 10, "serving predictions over HTTP"),
    Package("uvicorn", "uvicorn", "serve", 1, "serving predictions over HTTP"),
    Package("prometheus-client", "prometheus_client", "serve", 1, "figures of a server"),
    Package("onnx", "onnx", "onnx", 40, "writing ONNX"),
    Package("onnxscript", "onnxscript", "onnx", 10, "writing ONNX"),
    Package("onnxruntime", "onnxruntime", "onnx", 80, "running ONNX"),
)


def package_version(name: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def require(purpose: str, *names: str) -> None:
    """Require packages before a long computation that needs them at its end.

    Raises:
        MissingExtraError: If one of them is missing.
    """
    for package in PACKAGES:
        if package.name in names and not is_importable(package.module):
            raise MissingExtraError(purpose, package.name, package.extra)


def is_importable(module: str) -> bool:
    """Return True if a module can be found, without importing it."""
    return importlib.util.find_spec(module) is not None
