"""The base of all estimators: a kernel machine, a trained network, a seed, and saving."""

from __future__ import annotations

import copy
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import nn
from torch.optim import Optimizer

from representer import __version__
from representer.checks import SuggestsArguments, installed, require_arguments
from representer.errors import ArgumentError, DataError, say
from representer.estimators import kernel_machine
from representer.estimators.explanation import (
    KERNEL,
    NETWORK,
    Contribution,
    Explanation,
    Part,
    Places,
)
from representer.estimators.halves import (
    NETWORK_ALONE,
    POOL_FILE,
    JointTarget,
    Pool,
    read_targets,
    write_targets,
)
from representer.estimators.label_sets import LabelSets
from representer.estimators.targets import Classes, ClassTable, Numbers, Target, columns_of
from representer.kernels.composition import from_plain, to_plain
from representer.kernels.kernel import Kernel
from representer.machine import require_device
from representer.models import to_dict
from representer.models.cells import CELLS, SIGNAL_CELLS, resolve_cell
from representer.options.task import TrainingParameters
from representer.report.page import Results, picture_of, render
from representer.storage import atomic
from representer.storage.atomic import from_values, parse_json, read_bytes
from representer.storage.run import MODEL, WEIGHTS, RunFiles, RunFolder
from representer.training.config import METRICS_JSONL, TrainerConfig, TrainingTask, as_jsonl
from representer.training.state import report_device

if TYPE_CHECKING:
    Kind = TypeVar("Kind", bound="Estimator")
    from collections.abc import Callable


# Saving and loading a fitted estimator: the run folder of the command line, without pickle.

FORMAT = "representer estimator 1"
_NOT_SAVED = (
    "callbacks", "warm_start", "verbose", "n_jobs", "device", "cuda_graph", "log_with",
)  # fmt: skip
PLAIN = (str, int, float, bool)
_MOST = 2**26  # bytes of a model.json


@dataclass(frozen=True)
class Saved:
    """model.json: everything but weights and large inputs."""

    format: str  # the version of this layout
    version: str  # the version of the library that wrote it
    estimator: str  # name of the class
    parameters: dict[str, Any]  # parameters of the constructor that differ from their defaults
    target: dict[str, Any]  # fields of the target; empty for an estimator without targets
    inputs: dict[str, Any]  # how objects become batches
    network: dict[str, Any]  # configuration of the network
    examples: dict[str, int]  # number of training and validation examples
    task: str = ""  # its task on the command line
    # how the command line read the training data
    reading: dict[str, Any] = field(default_factory=dict)


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
    placed_on = require_device(device)
    report_device(placed_on, say)
    files = RunFiles(folder)
    saved, cls = _read_class(files, kind)
    estimator = files.parsed(
        MODEL, lambda: cls(**{name: from_plain(value) for name, value in saved.parameters.items()})
    )
    files.parsed(MODEL, estimator.check)
    if saved.target:
        estimator.target_ = files.parsed(MODEL, lambda: read_target(saved.target))
        estimator.n_features_in_ = 1
    estimator.inputs_ = files.parsed(MODEL, lambda: estimator._load_inputs(files, saved.inputs))
    estimator.examples_, estimator.reading_ = saved.examples, saved.reading
    network: nn.Module | None = None
    if estimator.has_network:
        config = files.parsed(MODEL, lambda: estimator._read_config(saved.network))
        files.parsed(MODEL, lambda: estimator._require_sizes(config))
        network = files.load_model(lambda: cls._make(config)).to(placed_on)
    lines = files.bytes(METRICS_JSONL).splitlines()
    estimator.history_ = files.parsed(METRICS_JSONL, lambda: [parse_json(line) for line in lines])
    estimator.network_ = network
    estimator._load_fitted(files)
    return estimator


def load_inputs(folder: str | Path, kind: type[Estimator]) -> Any:
    """Return the inputs of a run alone, see `load`."""
    files = RunFiles(folder)
    saved, cls = _read_class(files, kind)
    return files.parsed(MODEL, lambda: cls()._load_inputs(files, saved.inputs))


def _read_class(files: RunFiles, kind: type[Any] | None) -> tuple[Saved, type[Any]]:
    """Return model.json and the class of the estimator, which is `kind` unless that is None."""
    from representer import estimators

    saved = read_description(files)
    cls: type[Any] | None = None
    if saved.estimator in estimators.ESTIMATORS:
        cls = getattr(estimators, saved.estimator)
    elif (cls := installed("estimators").get(saved.estimator)) is None:
        problem = f"{saved.estimator!r:.60} is not an estimator of this library, and no installed "
        problem += "package has a task with it, or an entry point of it in representer.estimators"
        fix = "Name another run folder, or install the package that wrote this one."
        raise DataError(problem, file=files.folder / MODEL, fix=fix)
    assert cls is not None
    if kind is not None and cls is not kind:
        problem = f"holds a {cls.__name__}, not a {kind.__name__}"
        raise DataError(problem, file=files.folder, fix=f"Use {cls.__name__}.load.")
    return saved, cls


def read_description(files: RunFiles) -> Saved:
    """Return model.json of a run.

    Raises:
        DataError: It is damaged, or of another version of the library.
    """
    require_this_version(files.json(MODEL), files.folder)
    return files.read(MODEL, Saved)


def require_this_version(described: Any, folder: str | Path) -> None:
    """Refuse what another version of the library wrote as model.json."""
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        written = described.get("version", "0.1.0") if isinstance(described, dict) else "0.1.0"
        problem = f"was written by version {written}; this is version {__version__}"
        fix = f"Train again, or install version {written}."
        raise DataError(problem, file=Path(folder) / MODEL, fix=fix)


def refuse_other_versions(folder: Path) -> None:
    """Refuse a folder with a model of another version of the library.

    Raises:
        DataError: It has one.
    """
    try:  # without the manifest, which lists the file only once there are weights
        described = parse_json(read_bytes(folder / MODEL, _MOST))
    except (OSError, ValueError):  # none yet, or a damaged one, which is written again
        return
    require_this_version(described, folder)


def _target_values(estimator: Estimator) -> dict[str, Any]:
    """Return what is predicted as plain values; of a language model, its inputs say it."""
    target: Target | None = vars(estimator).get("target_")
    if target is None:
        return {}
    for label in _labels(target):
        if not isinstance(label, PLAIN):
            problem = f"the class {label!r} cannot be saved"
            raise DataError(problem, fix="Use texts or integers as labels.")
    return asdict(target)


def read_target(values: dict[str, Any]) -> Target:
    """Return the target that `_target_values` described."""
    keys = {"names": Classes, "labels": LabelSets, "columns": ClassTable}
    target_class: Any = next((keys[key] for key in keys if key in values), Numbers)
    target = from_values(target_class, values)
    columns = target.columns if isinstance(target, ClassTable) else (target,)
    for column in columns:
        names = _labels(column)
        if not isinstance(column, Numbers) and len(set(names)) < max(2, column.width):
            raise ValueError("the classes are not at least two distinct labels")
    if not all(isinstance(name, PLAIN) for name in _labels(target)):
        raise ValueError("a class is no plain label")
    return target


def is_plain(value: Any) -> bool:
    """Return True for a text, a number, a truth value or None, or a sequence of these."""
    entries: Sequence[Any] = value if isinstance(value, tuple | list) else (value,)
    return all(entry is None or isinstance(entry, PLAIN) for entry in entries)


def _labels(target: Target) -> list[Any]:
    if isinstance(target, Numbers):
        return []
    columns = target.columns if isinstance(target, ClassTable) else (target,)
    return [name for column in columns for name in column.names]


def _suggesting(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def run(self: Any, *values: Any, **options: Any) -> Any:
        name = f"{type(self).__name__}.{method.__name__}"
        require_arguments(name, method, options)
        try:
            return method(self, *values, **options)
        except TypeError:
            try:
                inspect.signature(method).bind(self, *values, **options)
            except TypeError as error:  # Python names the class that defines the method
                raise TypeError(f"{name}() {error}") from None
            raise

    return run


def _parameters_of(cls: Any) -> str:
    """Return the sections on parameters and attributes that `help` shows of an estimator."""
    lines = [
        f"{field.name}: {field.metadata.get('help', '')} (default: {field.default!r})"
        for field in fields(cls)
    ]
    fitted = [
        "classes_: The labels, in the order of `predict_proba` (classifiers).",
        "kernel_: The exact kernel, an object of ``representer.kernels``.",
        'network_: The trained network, a torch module; None with ``answer="kernel"``.',
        "share_: The weight of each part in the scores.",
        "history_: The metrics of each evaluation of the training.",
    ]
    raised = [
        "DataError: `fit` or `predict` cannot use an object or a target; it names the row.",
        "ArgumentError: `fit` finds a parameter out of its range.",
    ]
    sections = (
        ("Parameters:", lines), ("Attributes, once fitted:", fitted), ("Raises:", raised),
    )  # fmt: skip
    return "\n\n".join(
        "\n".join([f"    {title}", *(f"        {line}" for line in text)])
        for title, text in sections
    )


def _draw(estimator: Estimator, one: Any, explanation: Explanation) -> str:
    return picture_of(estimator.explanation_details(one, explanation))


class Estimator(SuggestsArguments, TrainingParameters, BaseEstimator, ABC):
    """An estimator of any kind, whose parameter `answer` chooses kernel, network or both.

    Attributes:
        network_: The trained network; None with ``answer="kernel"``.
        targets_: Kernel machine, weights of both parts and calibration of each target.
        examples_: Number of training and validation examples, or tokens.
        reading_: How the command line read the training data; empty after `fit` in Python.
    """

    instead: ClassVar[Mapping[str, str]] = {
        "learning_rate": "did you mean 'lr'?", "seed": "did you mean 'random_state'?",
        "max_iter": "did you mean 'epochs'?",
    }  # fmt: skip
    _task: ClassVar[str] = ""  # on the command line
    _config: ClassVar[type[Any]]  # of the network's configuration
    _inputs: ClassVar[type[Any]]  # of the inputs, a dataclass of plain values
    _results_of: ClassVar[Callable[..., Results]]  # what `report` shows
    _input_tags: ClassVar[tuple[str, ...]] = ()  # of scikit-learn's InputTags, those that hold
    network_seconds_: float | None = None  # of the network's training
    answer: str
    inputs_: Any  # the conversion of objects to batches
    target_: Any  # Classes, ClassTable or Numbers
    network_: Any
    targets_: tuple[JointTarget, ...] = (NETWORK_ALONE,)
    examples_: dict[str, int]
    reading_: dict[str, Any]
    history_: Any

    def __init_subclass__(cls, **options: Any) -> None:
        """Let each public method suggest a name for an unknown argument; document parameters."""
        if cls.__doc__ and not cls.__name__.startswith("_"):
            cls.__doc__ = f"{cls.__doc__.rstrip()}\n\n{_parameters_of(cls)}"
        for name, method in [*vars(cls).items()]:
            if inspect.isfunction(method) and not name.startswith("_"):
                setattr(cls, name, _suggesting(method))
        super().__init_subclass__(**options)

    # ---- what a subclass defines; what tasks, reports and serving call, too, has a public name

    @staticmethod
    @abstractmethod
    def _make(config: Any) -> nn.Module:
        """Return the network of a configuration; it keeps it as ``config``."""

    @abstractmethod
    def training_plan(
        self, train: Any, valid: Any, network: nn.Module, seed: int
    ) -> tuple[TrainingTask, TrainerConfig, Optimizer | None]:
        """Return batches, loss and evaluation, the trainer's configuration, and the optimizer.

        The optimizer is the trainer's own, Adam, if it is None.
        """

    def _read_config(self, values: dict[str, Any]) -> Any:
        """Return the configuration of the network that was saved as plain values."""
        return from_values(self._config, values)

    def _require_sizes(self, config: Any) -> None:
        """Raise a ValueError unless the network fits inputs and targets."""

    def _save_inputs(self, run: RunFolder) -> dict[str, Any]:
        """Return the inputs as plain values, after writing larger parts as files of their own."""
        return asdict(self.inputs_)

    def _load_inputs(self, files: RunFiles, values: Any) -> Any:
        """Return the inputs that `_save_inputs` wrote."""
        return from_values(self._inputs, values)

    @abstractmethod
    def _write_machines(self, run: RunFolder, machines: Sequence[Any]) -> None:
        """Write the kernel machine of each target."""

    @abstractmethod
    def _read_machines(self, files: RunFiles) -> Sequence[Any]:
        """Return the kernel machine of each target of a run."""

    def remembered(self, objects: Sequence[Any]) -> Sequence[Any]:
        """Return the objects with memory for what kernels of several targets read of them."""
        return objects

    def places_of(self, one: Any, contributions: Sequence[Contribution]) -> Places:
        """Return the names of what an object consists of, such as its words; here, numbers."""
        count = 1 + max((t for term in contributions for t in term.where), default=-1)
        return Places.numbered([*map(str, range(count))], "whole object")

    def explained(
        self, one: Any, prediction: Any, score: float, baseline: float,
        contributions: Sequence[Contribution], k: int,
    ) -> Explanation:  # fmt: skip
        """Return an explanation that can draw its object."""
        places = self.places_of(one, contributions)
        result = Explanation.of(prediction, score, baseline, contributions, k, places)
        return replace(result, draw=partial(_draw, self, one, result))

    def explanation_details(self, one: Any, explanation: Explanation) -> dict[str, Any]:
        """Return what a report shows of an explained object besides its contributions."""
        return {}

    @property
    def network_name(self) -> str:
        """Name of the network in reports."""
        return type(self).__name__

    # ---- what a user reads

    @property
    def has_network(self) -> bool:
        """False if the kernel machine alone predicts."""
        return self.answer != KERNEL

    @property
    def machine_(self) -> Any:
        """The kernel machine of the first target; None with ``answer="network"``."""
        return self.targets_[0].machine if self.targets_ else None

    @property
    def pool_(self) -> Pool:
        """The weights of both parts for the first target, found on the validation data."""
        return self.targets_[0].pool

    @property
    def kernel_(self) -> Any:
        """The fitted kernel of the first target; None with ``answer="network"``."""
        check_is_fitted(self)
        return None if self.machine_ is None else self.machine_.kernel

    @property
    def share_(self) -> dict[str, float]:
        """The part of the spread of the scores that each part makes up, the mean over targets."""
        check_is_fitted(self)
        share = float(np.mean([target.pool.share for target in self.targets_]))
        return {KERNEL: share, NETWORK: 1 - share}

    @property
    def parts_(self) -> dict[str, Part]:
        """The fitted parts by name; one that added nothing has the share 0."""
        check_is_fitted(self)
        seconds: dict[str, float | None] = {}
        if self.machines_ and self.answer != NETWORK:
            seconds[KERNEL] = sum(machine.seconds for machine in self.machines_)
        if self.has_network:
            seconds[NETWORK] = self.network_seconds_
        return {name: Part(self.share_[name], seconds_of) for name, seconds_of in seconds.items()}

    # ---- what a user calls

    def part(self, answer: str) -> Self:
        """Return one part of an estimator that was fitted with ``answer="both"``.

        It shares the fitted kernel machine or network, and predicts as an estimator with this
        `answer` does that was fitted to the same data with the same seed.

        Args:
            answer: ``"kernel"`` or ``"network"``; ``"both"`` returns the estimator itself.

        Raises:
            ArgumentError: The estimator has no such part.
        """
        check_is_fitted(self)
        if answer == self.answer:
            return self
        answering = copy.copy(self)
        answering.targets_ = tuple(target.part(answer) for target in self.targets_)
        answering.answer = answer
        vars(answering).pop("conformal_", None)  # of the predictions of both
        return answering

    def save(self, folder: str | Path) -> None:
        """Write the fitted estimator into a new folder, without pickle; `load` reads it.

        Args:
            folder: The run folder; it may exist if it is empty.

        Raises:
            ArgumentError: The folder holds a run or files of the same names.
        """
        check_is_fitted(self)
        with RunFolder(folder, has_resume=False) as run:
            self.write_description(run, self.network_)
            run.write_text(METRICS_JSONL, as_jsonl(self.history_))
            if self.network_ is not None:
                run.write_tensors(WEIGHTS, self.network_.state_dict())
            self.save_fitted(run)

    def report(
        self, path: str | Path, X: Any = None, y: Any = None, *, k: int = 10, examples: int = 5
    ) -> None:
        """Write a page of the fitted estimator: one HTML file without scripts and links.

        It shows what was fitted, in what time, the shares of kernel and network, and the learning
        curves; for X, explanations of the first objects; for X and y, scores with intervals,
        calibration and errors as well.

        Args:
            path: The file; an existing one is replaced.
            X: Objects that were not used for training; of a language model, a text.
            y: Their targets; a language model needs none.
            k: Number of contributions to show of each explained object.
            examples: Number of objects to explain.

        Raises:
            ArgumentError: There is y without X, or a number is out of its range.
            DataError: An object or a target cannot be used.
            StorageError: The file cannot be written.
        """
        check_is_fitted(self)
        for name, number in (("k", k), ("examples", examples)):
            if not isinstance(number, Integral) or number < 0:
                raise ArgumentError(name, number, "0 or more")
        atomic.write_text(path, render(self._results_of(self, X, y, k, examples)))

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "cpu") -> Self:
        """Return the fitted estimator of a run folder.

        Args:
            folder: The folder that `save` or ``representer fit`` wrote.
            device: Device of its network: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``, or
                ``"auto"``, a CUDA device if there is one.

        Raises:
            ArgumentError: There is no such device.
            DataError: The folder holds no estimator of this class, or a damaged one.
            CheckpointError: Its weights are damaged.
        """
        return load(folder, cls, device=device)

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: X is no table of numbers."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        for name in self._input_tags:
            setattr(tags.input_tags, name, True)
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Return True after `fit` and `load`."""
        return hasattr(self, "network_")

    # ---- how it is done; what tasks, reports and serving call, too, has a public name

    @property
    def machines_(self) -> list[Any]:
        """The kernel machines of the targets that have one."""
        return [target.machine for target in self.targets_ if target.machine is not None]

    def on_cpu(self) -> Self:
        """Return the estimator with its network on the CPU, where it is explained in float64."""
        if self.network_ is None or next(self.network_.parameters()).device.type == "cpu":
            return self
        copied = copy.copy(self)
        copied.network_ = copy.deepcopy(self.network_).cpu()
        return copied

    def _check_parameters(self) -> None:
        """Check every parameter, after replacing NumPy's numbers, as of a grid, by Python's."""
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, np.generic):
                setattr(self, name, value.item())
        self.check()

    def check(self) -> None:
        super().check()
        cell = getattr(self, "cell", None)  # which a kernel machine alone would never build
        if cell is not None:
            resolve_cell(cell, SIGNAL_CELLS if self._task == "signal" else CELLS)

    def write_description(self, run: RunFolder, network: Any) -> None:
        """Write everything but the weights and the metrics."""
        default = type(self)()
        chosen = {
            name: to_plain(value) if isinstance(value, Kernel) else value
            for name, value in self.get_params(deep=False).items()
            if name not in _NOT_SAVED and value != getattr(default, name)
            if is_plain(value) or isinstance(value, Kernel)
        }
        saved = Saved(
            FORMAT, __version__, type(self).__name__, chosen, _target_values(self),
            self._save_inputs(run), {} if network is None else to_dict(network.config),
            self.examples_, self._task,
            self.reading_,
        )  # fmt: skip
        run.write_json(MODEL, asdict(saved))

    def save_fitted(self, run: RunFolder) -> None:
        """Write what is fitted besides the network."""
        write_targets(run, self.targets_)
        if self.machines_:
            self._write_machines(run, [target.machine for target in self.targets_])

    def _load_fitted(self, files: RunFiles) -> None:
        """Restore what `save_fitted` wrote; the network is there already."""
        are_numbers = [isinstance(column, Numbers) for column in columns_of(self.target_)]
        self.targets_ = (NETWORK_ALONE,) * len(are_numbers)  # while training has not ended
        if files.has(POOL_FILE):
            has_machines = files.has(kernel_machine.DESCRIPTION)
            machines = self._read_machines(files) if has_machines else [None] * len(are_numbers)
            self.targets_ = read_targets(files, machines, are_numbers)
