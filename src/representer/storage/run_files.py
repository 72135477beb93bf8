"""Read the files of a run folder, each checked against the manifest."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from representer.errors import CheckpointError, DataError, RepresenterError
from representer.printable import say
from representer.storage.fields import from_values
from representer.storage.files import parse_json, parse_yaml, read_bytes, require_shallow
from representer.storage.manifest import MANIFEST, Entry, read_manifest
from representer.storage.tensor_file import (
    Forms,
    forms_of,
    read_tensors,
    require_same_forms,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Kind = TypeVar("Kind", bound=DataclassInstance)
    Model = TypeVar("Model", bound=nn.Module)
    Content = TypeVar("Content")

MODEL, WEIGHTS = "model.json", "model.safetensors"
OF_PREDICTIONS = (
    MODEL, WEIGHTS, "vocabulary.json", "kernel.json", "kernel.safetensors", "pool.json",
    "conformal.json",
)  # fmt: skip
_MOST = {"vocabulary.json": 2**29, "kernel.json": 2**29, "metrics.jsonl": 2**26}  # bytes
_MOST_OTHERS = 2**26
_CHANGES = {  # of values alone
    "normal_", "uniform_", "kaiming_uniform_", "trunc_normal_", "mul_", "add_", "sub_", "div_",
}  # fmt: skip
_PAUSE = 0.2  # seconds; a writer updates the manifest shortly after a file
_NAME_A_RUN = "Name the folder that `representer fit ... --out` wrote."
_TRAIN_AGAIN = "Train again, or take the file from a copy of the run."


class _DiffersError(ValueError):
    """A file does not match the manifest."""


class RunFiles:
    """A run folder that may be damaged or come from a stranger.

    Every file must be a regular file of bounded size and agree with ``manifest.json``. A run of an
    older version has no manifest: it is read with the other checks, after a notice on stderr.

    Args:
        folder: The run folder.

    Raises:
        DataError: The folder does not exist, or its manifest is damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise DataError("there is no such run folder", file=folder, fix=_NAME_A_RUN)
        try:
            self._entries = read_manifest(self.folder)
        except (OSError, ValueError) as error:
            raise self._damaged(MANIFEST, error) from None

    def has(self, name: str) -> bool:
        """Return True if the run has a file with this name."""
        if self._entries is not None:
            return name in self._entries
        return (self.folder / name).exists()

    def bytes(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            DataError: It is missing, cannot be read, or differs from what the run wrote.
        """

        def read() -> bytes:
            data = read_bytes(self.folder / name, _MOST.get(name, _MOST_OTHERS))
            self._verify(name, data)
            return data

        try:
            return self._again_if_it_differs(read)
        except FileNotFoundError:
            problem = f"there is no {name}; this is no run"
            raise DataError(problem, file=self.folder, fix=_NAME_A_RUN) from None
        except (OSError, ValueError) as error:
            raise self._damaged(name, error) from None

    def text(self, name: str) -> str:
        """Return the text of a UTF-8 file; JSON must not be nested deeply."""
        data = self.bytes(name)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise self._damaged(name, ValueError("it is not UTF-8")) from None
        if name.endswith(".json"):
            self.parsed(name, lambda: require_shallow(data))
        return text

    def json(self, name: str) -> Any:
        """Return the value of a JSON file, see `bytes`."""
        data = self.bytes(name)
        return self.parsed(name, lambda: parse_json(data))

    def yaml(self, name: str) -> dict[str, Any]:
        """Return the options of a YAML file, with the checks of a file of ``--config``."""
        text = self.text(name)
        return self.parsed(name, lambda: dict(parse_yaml(text)[0]))

    def read(self, name: str, kind: type[Kind]) -> Kind:
        """Return a JSON file as a dataclass, checking every name, type and size."""
        values = self.json(name)
        return self.parsed(name, lambda: from_values(kind, values))

    def parsed(self, name: str, parse: Callable[[], Any]) -> Any:
        """Return the content of a file, parsed by `parse`.

        Raises:
            DataError: It raises an error of the content, such as ValueError.
        """
        try:
            return parse()
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise self._damaged(name, error) from None

    def tensors(
        self, name: str, check: Callable[[Forms], None], *, is_nan_allowed: bool = False
    ) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Return the tensors of a safetensors file and its metadata, see `read_tensors`.

        Raises:
            DataError: The file is missing.
            CheckpointError: It is damaged or does not pass `check`.
        """
        path = self.folder / name

        def read() -> tuple[dict[str, Tensor], dict[str, str]]:
            verify = partial(self._verify, name)
            return read_tensors(path, check=check, verify=verify, is_nan_allowed=is_nan_allowed)

        try:
            return self._again_if_it_differs(read)
        except FileNotFoundError:
            fix = "Train it to its first evaluation, with `representer fit ... --resume`."
            raise DataError("there are no weights yet", file=path, fix=fix) from None
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{path} does not hold this model's weights: {_reason(error)}. {_TRAIN_AGAIN}"
            ) from None

    def load_model(self, build: Callable[[], Model], description: str = MODEL) -> Model:
        """Create a model with the weights of the run, in evaluation mode.

        Args:
            build: Makes the model. It is called on the meta device first: names, shapes and dtypes
                are compared with the file before memory is allocated.
            description: Name of the file that describes the model.

        Raises:
            DataError: There are no weights, or the description is of a model that cannot be built.
            CheckpointError: The weights are damaged, not finite, or of another model.
        """
        try:
            with torch.device("meta"), _WithoutValues():
                described = build()
        except (RepresenterError, RuntimeError, TypeError, ValueError, ArithmeticError) as error:
            raise self._damaged(description, error) from None
        if self._entries is None:
            say(f"{self.folder}: a run of an older version, without {MANIFEST}; damage to its "
                "files may go unnoticed")  # fmt: skip
        weights = self._weights(described)
        model = build()
        model.load_state_dict(weights)
        return model.eval()

    def _weights(self, model: nn.Module) -> dict[str, Tensor]:
        """Return the weights of the run for a model."""
        expected = forms_of(model.state_dict())
        weights, _ = self.tensors(WEIGHTS, lambda forms: require_same_forms(forms, expected))
        return weights

    def _verify(self, name: str, data: bytes) -> None:
        if self._entries is None:
            return
        if name not in self._entries:
            raise _DiffersError(f"{MANIFEST} does not list it")
        if self._entries[name] != Entry.of([data]):
            raise _DiffersError(f"its SHA-256 is not that of {MANIFEST}")

    def _again_if_it_differs(self, read: Callable[[], Content]) -> Content:
        """Retry once: a training run may have replaced the file but not yet the manifest."""
        try:
            return read()
        except _DiffersError:
            time.sleep(_PAUSE)
            self._entries = read_manifest(self.folder)
            return read()

    def _damaged(self, name: str, error: Exception) -> DataError:
        problem = f"cannot be used: {_reason(error)}"
        return DataError(problem, file=self.folder / name, fix=_TRAIN_AGAIN)


def require_finite(run: str | Path, values: NDArray[Any] | Sequence[float] | float) -> None:
    """Check that predictions are finite, which finite weights do not guarantee.

    Raises:
        CheckpointError: One is NaN or infinite.
    """
    if not np.isfinite(values).all():
        raise CheckpointError(f"{run}: the model's predictions are not finite. {_TRAIN_AGAIN}")


def task_of(folder: str | Path, known: Collection[str] | None = None) -> str:
    """Return the task of a run, for example ``"text"``.

    Args:
        folder: The run folder.
        known: Names of tasks, if it must be one of them.

    Raises:
        DataError: The folder is not a run, or is a run of another task.
    """
    described = RunFiles(folder).json(MODEL)
    task = described.get("task") if isinstance(described, dict) else None
    if not isinstance(task, str):
        raise DataError("names no task", file=Path(folder) / MODEL, fix=_TRAIN_AGAIN)
    if known is not None and task not in known:
        problem = f"is of the task {task!r:.40}; expected one of {', '.join(known)}"
        raise DataError(problem, file=Path(folder) / MODEL, fix=_NAME_A_RUN)
    return task


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.strip().splitlines()[0].rstrip(".")


class _WithoutValues(TorchFunctionMode):
    """Changes no values, for which torch on the meta device would import its compiler: a second."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _CHANGES:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
