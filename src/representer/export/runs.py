"""Export of a trained run: the network, its preprocessing, and a program that uses both."""

from __future__ import annotations

import copy
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from representer.errors import ArgumentError
from representer.estimators import saving
from representer.estimators.base import Estimator
from representer.estimators.explanation import NETWORK
from representer.export import programs
from representer.export.int8 import to_int8
from representer.export.interface import Interface, interface
from representer.export.preprocessing import left_out, preprocessing
from representer.storage import atomic
from representer.storage.run_folder import make_folder

EXAMPLES = Path(__file__).parent / "examples"
KINDS = ("onnx", "torch")
STEPS, REPEATS = 40, 30


class ExportedFile(NamedTuple):
    """A network in a file, or in torch.

    Attributes:
        name: Of the file; ``"torch"`` for the network of the run.
        bytes: Size of the file, or of the weights in torch.
        milliseconds: Median time of one sequence of `STEPS` steps.
        parity: The largest differences from the network in torch, at three sizes.
    """

    name: str
    bytes: int
    milliseconds: float
    parity: list[programs.Parity]


class ExportedRun(NamedTuple):
    """The files of an exported run.

    Attributes:
        folder: Where they are.
        files: The network in torch, and as it was exported.
        others: Names of the files beside it: preprocessing, and a program that predicts.
        left_out: What of the run's predictions is not exported, or "".
    """

    folder: Path
    files: tuple[ExportedFile, ...]
    others: tuple[str, ...]
    left_out: str


def export_run(
    run: str | Path | Estimator, folder: str | Path, to: str = "onnx", *, int8: bool = False
) -> ExportedRun:
    """Write the network of a run with its preprocessing as JSON.

    For ONNX, ``predict.py`` beside them needs numpy and onnxruntime alone. For texts, it computes
    the predictions of the run, kernel machine included; for signals and language, those of the
    network.

    Args:
        run: The run folder, or a fitted estimator.
        folder: The folder to write, which is made if it is missing.
        to: ``"onnx"`` or ``"torch"``.
        int8: Write ONNX with weights of 8 bits too.

    Raises:
        ArgumentError: `to` is unknown, or weights of 8 bits are requested of a torch program.
        KindError: The run holds no network, or one that cannot be exported.
        MissingExtraError: ONNX or its runtime are not installed.
        DataError: The run is damaged.
        RunFolderError: The folder is a link or a file, or cannot be made.
        StorageError: A file cannot be written; it is as it was.
    """
    if to not in KINDS:
        raise ArgumentError("to", to, " or ".join(map(repr, KINDS)))
    if int8 and to != "onnx":
        raise ArgumentError("int8", int8, "False for torch", hint="Export to ONNX.")
    estimator: Any = run if isinstance(run, Estimator) else saving.load(run)
    task, values, arrays = preprocessing(estimator)
    if not isinstance(run, Estimator) and saving.is_standardized_by_subject(run):
        values["standardize"] = "subject"
    folder = Path(folder)
    make_folder(folder)
    network = estimator._on_cpu().network_.eval()
    described = interface(network)
    weights = sum(x.nbytes for x in network.state_dict().values())
    files = [_measured("torch", weights, described, described, [])]
    if to == "torch":
        path, write, load = folder / "model.pt2", programs.to_torch, programs.torch_run
    else:
        path, write, load = folder / "model.onnx", programs.to_onnx, programs.onnx_run
    parity = write(network, path)
    files.append(_measured(path.name, path.stat().st_size, described, load(path), parity))
    if int8:
        small = folder / "model.int8.onnx"
        to_int8(path, small)
        loaded = load(small)
        parity = programs.parity(described, loaded)
        files.append(_measured(small.name, small.stat().st_size, described, loaded, parity))
    others = ["preprocessing.json"]
    text = json.dumps(
        {"model": path.name, "left_out": left_out(estimator)} | values, ensure_ascii=False, indent=1
    )
    atomic.write_text(folder / others[0], text + "\n")
    if arrays:
        others.append("kernel.npz")
        content = io.BytesIO()
        np.savez(content, **arrays)  # type: ignore[arg-type]
        atomic.write_bytes(folder / others[-1], content.getvalue())
    example = EXAMPLES / f"{task}.py"
    if to == "onnx" and example.exists():  # the features of molecules need RDKit
        others.append("predict.py")
        atomic.write_text(folder / others[-1], example.read_text(encoding="utf-8"))
    return ExportedRun(folder, tuple(files), tuple(others), left_out(estimator))


def scores(run: str | Path | Estimator, exported: ExportedRun, X: Any, y: Any) -> dict[str, Any]:
    """Return how well a run and its exported files predict labeled objects.

    Args:
        run: The run folder, or the estimator.
        exported: What `export_run` wrote.
        X: The objects.
        y: Their labels or numbers.

    Returns:
        For each part that predicts, accuracy or R² by the name of the file.
    """
    estimator: Any = run if isinstance(run, Estimator) else saving.load(run)
    found: dict[str, Any] = {}
    for answer in dict.fromkeys((estimator.answer, NETWORK)):
        part = estimator.part(answer)
        found[answer] = {"torch": part.score(X, y)}
        for file in exported.files[1:]:
            part = copy.copy(part)
            part.network_ = _FileNetwork(exported.folder / file.name, estimator.network_)
            found[answer][file.name] = part.score(X, y)
    return found


class _FileNetwork(nn.Module):
    """A network that an exported file computes, in place of that of an estimator."""

    def __init__(self, path: Path, network: nn.Module) -> None:
        super().__init__()
        self.config = network.config
        self.run = (programs.onnx_run if path.suffix == ".onnx" else programs.torch_run)(path)
        self.unused = nn.Parameter(torch.zeros(1))  # its device is that of the inputs

    def forward(self, *inputs: Tensor) -> Tensor:
        return torch.from_numpy(self.run(*inputs)[0])


def _measured(
    name: str,
    size: int,
    described: Interface,
    run: Callable[..., Any],
    parity: list[programs.Parity],
) -> ExportedFile:
    """Return a file with its size, the time of a call, and its parity."""
    inputs, seconds = described.example({"time": STEPS, "batch": 1}), []
    for _ in range(REPEATS):
        started = time.perf_counter()
        run(*inputs)
        seconds.append(time.perf_counter() - started)
    return ExportedFile(name, size, 1e3 * median(seconds), parity)
