"""Saving and loading a fitted estimator: the run folder of the command line, without pickle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from torch import nn

from representer import __version__
from representer.devices import require_device
from representer.errors import DataError
from representer.estimators.classes import Classes, ClassTable
from representer.estimators.targets import Numbers, Target
from representer.installed import installed
from representer.models import to_dict
from representer.printable import say
from representer.storage.fields import from_values
from representer.storage.files import parse_json
from representer.storage.run_files import MODEL, WEIGHTS, RunFiles
from representer.storage.run_folder import RunFolder
from representer.training.metrics_log import METRICS_JSONL, as_jsonl
from representer.training.workers import report_device

if TYPE_CHECKING:
    from representer.estimators.base import Estimator

    Kind = TypeVar("Kind", bound=Estimator)

FORMAT = "representer estimator 1"
_NOT_SAVED = (
    "callbacks", "warm_start", "verbose", "n_jobs", "device", "cuda_graph", "log_with",
)  # fmt: skip
PLAIN = (str, int, float, bool)


@dataclass(frozen=True)
class Saved:
    """model.json: everything but weights and large inputs.

    Attributes:
        format: The version of this layout.
        version: The version of the library that wrote it.
        estimator: Name of the class.
        parameters: Parameters of the constructor that differ from their defaults.
        target: Fields of the target; empty for an estimator without targets.
        inputs: How objects become batches.
        network: Configuration of the network.
        examples: Number of training and validation examples.
        task: Its task on the command line.
        reading: How the command line read the training data.
    """

    format: str
    version: str
    estimator: str
    parameters: dict[str, Any]
    target: dict[str, Any]
    inputs: dict[str, Any]
    network: dict[str, Any]
    examples: dict[str, int]
    task: str = ""
    reading: dict[str, Any] = field(default_factory=dict)


def save(
    estimator: Estimator, folder: str | Path, *, reading: dict[str, Any] | None = None
) -> None:
    """Write a fitted estimator, and how its data was read; see `Estimator.save`."""
    with RunFolder(folder, has_resume=False) as run:
        describe(run, estimator, estimator.network_, reading)
        run.write_text(METRICS_JSONL, as_jsonl(estimator.history_))
        if estimator.network_ is not None:
            run.write_tensors(WEIGHTS, estimator.network_.state_dict())
        estimator._save_fitted(run)


def describe(
    run: RunFolder,
    estimator: Estimator,
    network: Any,
    reading: dict[str, Any] | None = None,
) -> None:
    """Write everything but the weights and the metrics."""
    default = type(estimator)()
    chosen = {
        name: value
        for name, value in estimator.get_params(deep=False).items()
        if name not in _NOT_SAVED and value != getattr(default, name)
        if is_plain(value)
    }
    saved = Saved(
        FORMAT, __version__, type(estimator).__name__, chosen, _target_values(estimator),
        estimator._save_inputs(run), {} if network is None else to_dict(network.config),
        estimator.examples_, estimator._task, reading or {},
    )  # fmt: skip
    run.write_json(MODEL, asdict(saved))


def load(folder: str | Path, kind: type[Kind] | None = None, *, device: str = "cpu") -> Kind:
    """Return the fitted estimator of a run folder.

    Args:
        folder: The folder that `save` or ``representer fit`` wrote.
        kind: Its class; None takes the one that was saved.
        device: Device of its network: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``, or
            ``"auto"``, a CUDA device if there is one.

    Raises:
        ArgumentError: There is no such device.
        DataError: The folder holds no estimator, one of another class, or a damaged one.
        CheckpointError: Its weights are damaged.
    """
    place = require_device(device)
    report_device(place, say)
    files = RunFiles(folder)
    saved, own = _read_class(files, kind)
    lists = {k: tuple(v) for k, v in saved.parameters.items() if isinstance(v, list)}
    estimator = files.parsed(MODEL, lambda: own(**saved.parameters | lists))
    files.parsed(MODEL, estimator.check)
    if saved.target:
        estimator.target_ = files.parsed(MODEL, lambda: read_target(saved.target))
        estimator.n_features_in_ = 1
    estimator.inputs_ = files.parsed(MODEL, lambda: estimator._load_inputs(files, saved.inputs))
    estimator.examples_ = saved.examples
    network: nn.Module | None = None
    if estimator.has_network:
        config = files.parsed(MODEL, lambda: estimator._read_config(saved.network))
        files.parsed(MODEL, lambda: estimator._require_sizes(config))
        network = files.load_model(lambda: own._make(config)).to(place)
    lines = files.bytes(METRICS_JSONL).splitlines()
    estimator.history_ = files.parsed(METRICS_JSONL, lambda: [parse_json(line) for line in lines])
    estimator.network_ = network
    estimator._load_fitted(files)
    return estimator


def load_inputs(folder: str | Path, kind: type[Estimator]) -> Any:
    """Return the inputs of a run alone, see `load`."""
    files = RunFiles(folder)
    saved, own = _read_class(files, kind)
    return files.parsed(MODEL, lambda: own()._load_inputs(files, saved.inputs))


def _read_class(files: RunFiles, kind: type[Any] | None) -> tuple[Saved, type[Any]]:
    """Return model.json and the class of the estimator, which is `kind` unless that is None."""
    from representer import estimators

    saved = read_description(files)
    own: type[Any] | None = None
    if saved.estimator in estimators.ESTIMATORS:
        own = getattr(estimators, saved.estimator)
    elif (own := installed("estimators").get(saved.estimator)) is None:
        problem = f"{saved.estimator!r:.60} is not an estimator of this library, and no installed "
        problem += "package has an entry point of this name in the group representer.estimators"
        fix = "Name another run folder, or install the package that wrote this one."
        raise DataError(problem, file=files.folder / MODEL, fix=fix)
    assert own is not None
    if kind is not None and own is not kind:
        problem = f"holds a {own.__name__}, not a {kind.__name__}"
        raise DataError(problem, file=files.folder, fix=f"Use {own.__name__}.load.")
    return saved, own


def read_description(files: RunFiles) -> Saved:
    """Return model.json of a run.

    Raises:
        DataError: It is damaged, or of another version of the library.
    """
    require_this_version(files.json(MODEL), files.folder)
    return files.read(MODEL, Saved)


def is_standardized_by_subject(folder: str | Path) -> bool:
    """Return True if ``fit signal`` standardized the windows before the estimator took them."""
    return read_description(RunFiles(folder)).reading.get("is_standardized_by_subject") is True


def require_this_version(described: Any, folder: str | Path) -> None:
    """Refuse what another version of the library wrote as model.json.

    Raises:
        DataError: Another version wrote it.
    """
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        written = described.get("version", "0.1.0") if isinstance(described, dict) else "0.1.0"
        problem = f"was written by version {written}; this is version {__version__}"
        fix = f"Train again, or install version {written}."
        raise DataError(problem, file=Path(folder) / MODEL, fix=fix)


def _target_values(estimator: Estimator) -> dict[str, Any]:
    """Return what is predicted as plain values; of a language model, its inputs say it.

    Raises:
        DataError: A class label is no text, number or truth value.
    """
    target: Target | None = vars(estimator).get("target_")
    if target is None:
        return {}
    for label in _labels(target):
        if not isinstance(label, PLAIN):
            problem = f"the class {label!r} cannot be saved"
            raise DataError(problem, fix="Use texts or integers as labels.")
    return asdict(target)


def read_target(values: dict[str, Any]) -> Target:
    """Return the target that `_target_values` described.

    Raises:
        ValueError: It is damaged.
    """
    kind = Classes if "names" in values else ClassTable if "columns" in values else Numbers
    target = from_values(kind, values)
    columns = target.columns if isinstance(target, ClassTable) else (target,)
    for column in columns:
        if isinstance(column, Classes) and len(set(column.names)) < max(2, column.width):
            raise ValueError("the classes are not at least two distinct labels")
    if not all(isinstance(name, PLAIN) for name in _labels(target)):
        raise ValueError("a class is no plain label")
    return target


def is_plain(value: Any) -> bool:
    """Return True for a text, a number, a truth value or None, or a sequence of these."""
    entries: Sequence[Any] = value if isinstance(value, tuple | list) else (value,)
    return all(one is None or isinstance(one, PLAIN) for one in entries)


def _labels(target: Target) -> list[Any]:
    if isinstance(target, Numbers):
        return []
    columns = target.columns if isinstance(target, ClassTable) else (target,)
    return [name for column in columns for name in column.names]
