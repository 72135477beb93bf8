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
from numpy.typing import NDArray
from torch import Tensor, nn

from representer.data.text.words import GRAPHEME_JOINER, WORDS, long_run
from representer.errors import ArgumentError, KindError
from representer.estimators import LanguageModel, SignalClassifier, base
from representer.estimators.base import Estimator
from representer.estimators.explanation import KERNEL, NETWORK
from representer.estimators.graph import GraphEnsembleEstimator
from representer.estimators.molecule import MoleculeNetwork
from representer.estimators.targets import Numbers
from representer.estimators.text import TextNetwork
from representer.export import programs
from representer.export.int8 import to_int8
from representer.export.programs import Interface, interface
from representer.kernels.text_kernel import NgramKernel
from representer.storage import atomic
from representer.storage.run import make_folder

# Preprocessing and postprocessing of an exported network, as plain values and arrays.

Arrays = dict[str, NDArray[np.float32]]

_LEAM = (  # see `tokenize`; the last rule makes 0 of what Python reads as a number
    (r"[^A-Za-z0-9(),.!?]", " "),
    (r"e\.g\.,|a\.k\.a\.|i\.e\.,|i\.e\.", " "),
    ("br", ""),
    (r"([,!()?.])", r" \1 "),
    (r"(?i)(?<!\S)(?:\d+(?:e\d+)?|nan|inf(?:inity)?)(?!\S)", "0"),
)


def word_rules(scheme: str) -> dict[str, Any]:
    """Return how a text is split into words, as regular expressions of Python.

    Rules of replacement come first, then Unicode's composed form, then lower case, and the words
    are what the pattern finds.
    """
    if scheme == "words":
        joined = long_run().pattern, rf"\g<0>{GRAPHEME_JOINER}"
        replace, pattern = (("\u2019", "'"), joined), f"(?x){WORDS.pattern}"
        return {"replace": replace, "pattern": pattern, "is_composed": True, "is_lower": True}
    replace = _LEAM if scheme == "leam" else ()
    is_lower = scheme == "leam"
    return {"replace": replace, "pattern": r"\S+", "is_composed": False, "is_lower": is_lower}


def preprocessing(estimator: Estimator) -> tuple[str, dict[str, Any], Arrays]:
    """Return the task of an estimator, what preprocessing.json says, and the kernel's arrays.

    Raises:
        KindError: It cannot be exported; the message says what can.
    """
    if estimator.network_ is None:
        hint = "Train with --answer network or both."
        raise KindError("the run", "one without a network", "one with a network", hint=hint)
    if isinstance(estimator, TextNetwork):
        values, arrays = _text(estimator)
        return "text", values | _target(estimator), arrays
    if isinstance(estimator, SignalClassifier):
        own = estimator.part(NETWORK)
        return "signal", _signal(own) | _target(own), {}
    if isinstance(estimator, LanguageModel):
        inputs = estimator.inputs_
        return "language", {"vocabulary": inputs.vocabulary.words, "level": inputs.level}, {}
    if isinstance(estimator, GraphEnsembleEstimator):
        own = estimator.part(NETWORK)
        values = {"network": own.pool_.network} | _target(own)
        if isinstance(estimator, MoleculeNetwork):
            return "molecule", {"atom_features": estimator.inputs_.features} | values, {}
        return "graph", own.inputs_.to_dict() | values, {}
    expected = "one of texts, signals, language, graphs or molecules"
    raise KindError("the run", f"a {type(estimator).__name__}", expected)


def left_out(estimator: Estimator) -> str:
    """Return what of a run's predictions is not in its export, the kernel machine first, or ""."""
    missing, parts = [], estimator.parts_
    share = parts[KERNEL].share if KERNEL in parts else 0.0
    if share and not isinstance(estimator, TextNetwork):
        missing.append(f"the kernel machine (its share of the predictions is {share:.0%})")
    if isinstance(estimator, MoleculeNetwork):
        missing.append("the features of atoms and bonds, which data.molecules computes with RDKit")
    return " and ".join(missing)


def _target(estimator: Any) -> dict[str, Any]:
    if len(estimator.targets_) > 1:
        count = f"one with {len(estimator.targets_)} targets"
        raise KindError("the run", count, "one with a single target")
    target = estimator.target_
    if isinstance(target, Numbers):
        return {"classes": None, "mean": target.means[0], "scale": target.scales[0]}
    return {"classes": target.names}


def _text(estimator: TextNetwork) -> tuple[dict[str, Any], Arrays]:
    inputs, pool, machine = estimator.inputs_, estimator.pool_, estimator.machine_
    values: dict[str, Any] = word_rules(inputs.tokenizer) | {
        "vocabulary": inputs.vocabulary.words, "max_length": inputs.max_length,
        "network": pool.network, "kernel": pool.kernel if machine else 0.0,
    }  # fmt: skip
    if not values["kernel"]:
        return values, {}
    if machine.kernel.vectors_ is not None:
        hint = "Train without pretrained vectors, or with answer='network'."
        raise KindError("the run", "one whose kernel compares vectors", "n-grams alone", hint=hint)
    views = machine.kernel.views_
    ends = np.cumsum([len(view.weights_) for view in views])[:-1]
    parts = np.split(machine.coefficients.T, ends)
    arrays = {"intercepts": machine.intercepts.astype(np.float32)}
    for k, (view, own) in enumerate(zip(views, parts, strict=True)):
        arrays |= {f"weights{k}": view.weights_.astype(np.float32)}
        arrays |= {f"coefficients{k}": own.astype(np.float32)}
    ngrams = [ngrams_of(view, blank) for view, blank in zip(views, (" ", ""), strict=True)]
    return values | {"orders": [view.orders for view in views], "ngrams": ngrams}, arrays


def ngrams_of(kernel: NgramKernel, blank: str) -> list[str]:
    """Return the n-grams of a fitted kernel in the order of its features, tokens joined."""
    tokens, base, found = np.array(kernel.tokens_, dtype=object), len(kernel.tokens_) + 1, []
    for order, codes in zip(kernel.orders, kernel.codes_, strict=True):
        digits = [codes // base ** (order - 1 - k) % base for k in range(order)]
        found += [blank.join(own) for own in zip(*(tokens[d] for d in digits), strict=True)]
    return found


def _signal(estimator: SignalClassifier) -> dict[str, Any]:
    inputs: Any = estimator.inputs_
    scaling = inputs.standardization
    return {
        "standardize": scaling.kind, "mean": scaling.mean, "deviation": scaling.deviation,
        "channels": inputs.names or inputs.num_channels,
        "sampling_rate": estimator.sampling_rate_, "network": estimator.pool_.network,
    }  # fmt: skip


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
    estimator: Any = run if isinstance(run, Estimator) else base.load(run)
    task, values, arrays = preprocessing(estimator)
    if not isinstance(run, Estimator) and base.is_standardized_by_subject(run):
        values["standardize"] = "subject"
    folder = Path(folder)
    make_folder(folder)
    network = estimator.on_cpu().network_.eval()
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
    estimator: Any = run if isinstance(run, Estimator) else base.load(run)
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
