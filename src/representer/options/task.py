"""The `Task`, as commands know it, and options of ``fit``: run, reading, estimator's parameters.

The command line and config.yaml share them: an estimator inherits its constructor from these
dataclasses. Free of torch and numpy, since the command line reads its options here.
"""

from __future__ import annotations

import importlib.util
import math
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, make_dataclass
from importlib.metadata import PackageNotFoundError, version
from numbers import Real
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from representer.checks import (
    LIMITS,
    is_integer,
    is_number,
    parse_number,
    require,
    require_choices,
    require_integers,
    require_numbers,
)
from representer.errors import ArgumentError, MissingExtraError
from representer.machine import EXPECTED, is_device_name

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Parameters of the estimators: each declared once, with its default and its help.

AUTO = "auto"
MONITORS = (AUTO, "accuracy", "loss")
ANSWERS = ("both", "kernel", "network")
PRECISIONS = ("no", "bf16", "fp16")
TRACKERS = {"tensorboard": "tensorboard", "mlflow": "mlflow-skinny"}  # module and package
DECAYS = ("learned", "input", "state")


def option(default: Any, help_text: str, **metadata: Any) -> Any:
    """Return a field with its help; ``metavar`` and ``choices`` may be named too."""
    return field(default=default, metadata={"help": help_text, **metadata})


@dataclass(kw_only=True, eq=False, repr=False)
class TrainingParameters:
    """Parameters that every estimator has; ``check`` is called by ``fit``."""

    _is_validation_required = True  # else valid_fraction may be 0
    save_every_epochs = 1  # more where writing files takes as long as an epoch
    epochs: int | None = option(None, "passes over the training data (default: by their number)")
    max_steps: int = option(0, "maximum number of steps; 0: no limit")
    evaluate_every: int = option(0, "validate every this many steps; 0: once per epoch")
    batch_size: int | None = option(None, "examples per step (default: by their number)")
    lr: float = option(1e-3, "learning rate of Adam")
    lr_decay: float = option(1.0, "factor of the learning rate after every epoch")
    weight_decay: float = option(0.0, "L2 penalty")
    clip_norm: float = option(0.0, "clip the norm of the gradient; 0: no clipping")
    clip_value: float = option(0.0, "clip the entries of the gradient; 0: no clipping")
    average_weights: bool = option(False, "keep the average of the weights of the last steps")
    patience: int | None = option(
        None, "stop after this many epochs without improvement; 0: never (default: by the data)"
    )
    valid_fraction: float | None = option(0.1, "fraction of the training data used for validation")
    monitor: str = option(
        AUTO,
        "validation metric that selects the best epoch (auto: accuracy from 1000 examples on)",
        choices=MONITORS,
    )
    time_limit: float | None = option(None, "seconds after which training ends", metavar="SECONDS")
    warm_start: str | None = option(
        None, "saved run whose weights and inputs training starts from", metavar="RUN"
    )
    random_state: Any = option(None, "random seed of split, weights, order and dropout")
    n_jobs: int | None = option(None, "CPU threads (default: torch's)")
    device: str = option(
        AUTO,
        "device to train on: cpu, cuda, cuda:1, mps; auto: CUDA if there is one",
        metavar="DEVICE",
    )
    mixed_precision: str = option(
        "no",
        "precision of products while training; recurrences stay in float32",
        choices=PRECISIONS,
    )
    cuda_graph: bool = option(False, "replay training steps from CUDA graphs, on one CUDA device")
    log_with: str | None = option(
        None, "log the metrics of the network with tensorboard or mlflow, too", metavar="NAME"
    )
    verbose: int = option(1, "0: silent; 1: progress")
    callbacks: Sequence[Callable[[dict[str, Any]], Any]] | None = option(
        None, "functions of the metrics of each evaluation; training ends when one returns True"
    )

    def check(self) -> None:
        """Check every value.

        Raises:
            ArgumentError: A value is out of its range.
        """
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.type == "float" or (entry.type == "float | None" and value is not None):
                require(self, entry.name, is_number(value), "a number")
        require_integers(self, 1, "epochs", "batch_size", "n_jobs", is_none_allowed=True)
        require_integers(self, 0, "max_steps", "evaluate_every")
        is_flag = type(self.verbose).__name__ in ("bool", "bool_")  # of Python or NumPy
        require(self, "verbose", is_flag or is_integer(self.verbose, 0), "0 or more")
        require_integers(self, 0, "patience", is_none_allowed=True)
        most = LIMITS["threads"]
        if (self.n_jobs or 1) > most:
            raise ArgumentError("n_jobs", self.n_jobs, f"at most {most}")
        require_numbers(self, "weight_decay", "clip_norm", "clip_value")
        require(self, "lr", 0 < self.lr < math.inf, "a positive number")
        require(self, "lr_decay", 0 < self.lr_decay < math.inf, "a positive number")
        share = 0.1 if self.valid_fraction is None else self.valid_fraction
        is_fraction, expected = 0 < share < 1, "a number between 0 and 1"
        if not self._is_validation_required:
            is_fraction, expected = 0 <= share < 1, "a number in [0, 1)"
        require(self, "valid_fraction", is_fraction, expected)
        is_time = self.time_limit is None or 0 < self.time_limit < math.inf
        require(self, "time_limit", is_time, "a positive number of seconds, or None")
        require(self, "device", is_device_name(self.device), EXPECTED)
        require_choices(self, mixed_precision=PRECISIONS, monitor=MONITORS)
        is_tracker = self.log_with is None or self.log_with in TRACKERS
        require(self, "log_with", is_tracker, f"{' or '.join(TRACKERS)}, or None")
        if self.log_with and importlib.util.find_spec(self.log_with) is None:
            raise MissingExtraError("log_with", TRACKERS[self.log_with], "track")


@dataclass(kw_only=True, eq=False, repr=False)
class TargetParameters(TrainingParameters):
    """Parameters of estimators of objects and their targets."""

    conformal: float | None = option(
        None,
        "add sets of classes or intervals of numbers that contain the truth with this probability, "
        "such as 0.9",
        metavar="LEVEL",
    )
    conformal_by: str | None = option(
        None, "let them do so for each class, not in the mean over all", choices=("class",)
    )
    calibration: str = option("split", "set rows aside for this, or use each row once by folds")
    class_weight: str | dict[Any, float] | None = option(
        None, "weight classes in inverse proportion to their number of examples", metavar="balanced"
    )
    answer: str = option(
        "both", "predict with the exact kernel, the network, or both", choices=ANSWERS
    )

    def check(self) -> None:
        super().check()
        require_choices(self, answer=ANSWERS)
        is_level = self.conformal is None or 0 < self.conformal < 1
        require(self, "conformal", is_level, "a number between 0 and 1, or None")
        require_choices(self, calibration=("split", "cross"), conformal_by=(None, "class", "group"))
        weights = self.class_weight
        is_fine = weights in (None, "balanced")
        if isinstance(weights, dict):
            is_fine = all(is_number(w) and 0 <= w < math.inf for w in weights.values())
        expected = "'balanced', non-negative numbers by class, or None"
        require(self, "class_weight", is_fine, expected)


def in_common(parameters: Any, configuration: type[Any]) -> dict[str, Any]:
    """Return the values of the parameters that a configuration has under the same names."""
    names = [entry.name for entry in fields(configuration)]
    return {name: getattr(parameters, name) for name in names if hasattr(parameters, name)}


def require_decay(parameters: Any) -> None:
    """Require a decay of a string kernel: a number in [0, 1], or one of `DECAYS`."""
    expected = f"a number in [0, 1], {', '.join(DECAYS[:-1])} or {DECAYS[-1]}"
    is_fine = parameters.decay in DECAYS or _is_fraction(parameters.decay)
    require(parameters, "decay", is_fine, expected)


def _is_fraction(value: float | str) -> bool:
    number = parse_number(value) if isinstance(value, str) else value
    return isinstance(number, Real) and 0 <= number <= 1


# A task: its files, its functions and the commands that it has.

KINDS = ("auto", "classification", "regression")
BASELINES = ("none", "simple", "all")

# `seed` and `threads` replace two of them; the others have no meaning on the command line.
_NOT_OPTIONS = (
    "random_state", "n_jobs", "callbacks", "verbose", "warm_start", "calibration",
)  # fmt: skip


@dataclass(frozen=True)
class RunConfig:
    """The options of every such task; `config_of` adds those of reading and of the estimator."""

    data: str | None = option(None, "labeled data: a file or a folder")
    out: str | None = option(None, "run folder (default: runs/NAME-OF-DATA)", metavar="RUN")
    valid: str | None = option(None, "validation data, instead of a part of DATA", metavar="DATA")
    test: str | None = option(None, "test data, instead of a part of DATA", metavar="DATA")
    test_fraction: float = option(0.1, "fraction of DATA used for testing")
    seed: int = option(0, "random seed of split, weights, order and dropout")
    threads: int = option(0, "CPU threads; 0: default of torch")
    baselines: str = option(
        "simple", "baselines to train too: none, simple ones, or all of the task", choices=BASELINES
    )
    resume: bool = option(False, "continue from the newest checkpoint of the run folder")
    demo: bool = option(False, "no DATA: synthetic data")

    def __post_init__(self) -> None:
        parts = {"valid_fraction": getattr(self, "valid_fraction", None) or 0.0}
        parts["test_fraction"] = self.test_fraction
        for name, share in parts.items():
            if not 0 < share < 1 and getattr(self, name) is not None:
                raise ArgumentError(name, share, "a number between 0 and 1")
        total = sum(parts.values())
        if total >= 1:
            raise ArgumentError("valid_fraction + test_fraction", total, "less than 1")
        for name in ("seed", "threads"):
            if getattr(self, name) < 0:
                raise ArgumentError(name, getattr(self, name), "0 or more")
        if self.baselines not in BASELINES:
            raise ArgumentError("baselines", self.baselines, "one of " + ", ".join(BASELINES))
        if self.demo and any((self.data, self.valid, self.test)):
            path = self.data or self.valid or self.test
            raise ArgumentError("data", path, "nothing with --demo, which has its own data")

        if self.demo and (groups := getattr(self, "groups", None)):
            raise ArgumentError("groups", groups, "nothing with --demo, whose objects have none")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, as in config.yaml."""
        return asdict(self)


@dataclass(frozen=True)
class EstimatorConfig(RunConfig):
    """The options of every task with labels."""

    kind: str = option(
        "auto", "what labels are (auto: regression if they are fractions)", choices=KINDS
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in KINDS:
            raise ArgumentError("kind", self.kind, "one of " + ", ".join(KINDS))


@dataclass(frozen=True)
class GroupReading:
    """Option of the commands that divide or test objects, of tasks whose files may name groups."""

    groups: str | None = option(
        None,
        "column of what rows belong to, such as a patient or an author; rows of equal cells stay "
        "together in every split, and intervals, calibration and coverage count them",
        metavar="COLUMN",
    )


@dataclass(frozen=True)
class Streaming:
    """Options of predicting data as they arrive."""

    stream: bool = option(False, "process the data step by step; write a row for each step")


def grouped(options: dict[str, tuple[type[Any], ...]]) -> dict[str, tuple[type[Any], ...]]:
    """Return the options of the commands of a task, with that of groups where it has an effect."""
    return options | {name: (*options[name], GroupReading) for name in ("evaluate", "drift")}


MAIN = ("text", "smiles", "label", "target", "labels", "level", "answer", "epochs", "out", "demo")
OUTPUT = ("out", "resume", "baselines", "log_with", "conformal", "conformal_by")
TRAINING = {f.name for f in fields(TrainingParameters)} | {"seed", "threads", "jobs"}
FIRST = 5  # options of `MAIN` that the help begins with


def group_of(one: Field[Any]) -> str:
    """Return the group of an option in the help."""
    if one.name in OUTPUT:
        return "output"
    if one.name in TRAINING:
        return "training"
    return one.metadata.get("group", "data")


def config_of(
    name: str, module: str, *kinds: type[Any], base: type[Any] = EstimatorConfig,
    without: Collection[str] = (),
) -> type[Any]:  # fmt: skip
    """Return the dataclass with the options of ``fit``.

    Of two options of one name in ``kinds``, the first counts, and all of them replace those of
    every task, ``base``; ``without`` are parameters that come from the data.
    """
    options: dict[str, tuple[str, Any, Any]] = {}
    for declared in kinds:
        hints = get_type_hints(declared)
        for f in fields(declared):
            is_option = f.name not in _NOT_OPTIONS or not issubclass(declared, TrainingParameters)
            if is_option and f.name not in (*without, *options):
                default: Any = f.default
                is_list = isinstance(default, tuple)
                hint = str if is_list else _of_command_line(hints[f.name])
                if hint is str and default is not None:
                    default = ",".join(map(str, default)) if is_list else str(default)
                is_model = f.name not in TRAINING and issubclass(declared, TrainingParameters)
                group = {"group": "model"} if is_model else {}
                copied = field(default=default, metadata={**f.metadata, **group})
                options[f.name] = f.name, hint, copied
    about = {
        "__module__": module,
        "__doc__": "Options of ``fit``: of the run, of reading and of the estimator.",
    }
    return make_dataclass(name, options.values(), bases=(base,), frozen=True, namespace=about)


def defaults(config: type[Any], demo: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of all options, with those of the demo."""
    usual = {f.name: f.default for f in fields(config) if f.default is not MISSING}
    return usual | demo


def defaults_with(config: type[Any], demo: dict[str, Any]) -> Callable[[Any], dict[str, Any]]:
    """Return the function from given options to the defaults of all, with those of the demo."""
    return lambda given: defaults(config, demo if given.demo else {})


def parameters_of(config: Any, estimator: type[Any]) -> dict[str, Any]:
    """Return the options that are parameters of an estimator, as its constructor takes them.

    Raises:
        ArgumentError: An option that takes a list is something else.
    """
    names = {f.name for f in fields(config)}
    chosen = {}
    for f in fields(estimator):
        if f.name in names:
            value = getattr(config, f.name)
            is_list = isinstance(f.default, tuple)
            parse = _names if is_list and "str" in str(f.type) else _integers
            chosen[f.name] = parse(f.name, value) if is_list else value
    return chosen | {"random_state": config.seed, "n_jobs": config.threads or None}


def refuse_parameters_of_others(config: Any, estimator: type[Any], other: type[Any]) -> None:
    """Refuse an option that the estimator lacks, such as one of the regressor for a classifier."""
    options = {option.name for option in fields(config)}
    options -= {parameter.name for parameter in fields(estimator)}
    for parameter in fields(other):
        if parameter.name not in options:
            continue
        value = getattr(config, parameter.name)
        if value != parameter.default:
            expected = f"nothing, since {estimator.__name__} does not have it"
            raise ArgumentError(parameter.name, value, expected)


def _of_command_line(hint: Any) -> Any:
    """Return the type of an option; what may be a number or a text is typed as a text.

    What may be an object in Python is a path here.
    """
    if hint is Any:
        return str | None
    return str if {float, str} <= set(get_args(hint)) else hint


def _names(name: str, text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",")) if text else ()


def _integers(name: str, text: str) -> tuple[int, ...]:
    words = text.split(",") if text else []
    if not (text.isascii() and all(word.strip().isdecimal() for word in words)):
        raise ArgumentError(name, text, "integers separated by commas, as in 2000,10000")
    return tuple(map(int, words))


def as_yaml(config: DataclassInstance) -> str:
    """Return the options of a run, as ``--config`` reads them."""
    import yaml

    options = {k: v for k, v in asdict(config).items() if v is not None and k != "resume"}
    return yaml.safe_dump(options, sort_keys=False, allow_unicode=True)


def without_data(task: str, config: Any) -> str:
    """Return what to do where a run of a task has no data, from the options of ``fit``."""
    if config.resume:
        folder = f"{config.out or 'RUN'}/config.yaml"
        return f"A run continues with the DATA and options of its start: --config {folder} --resume"
    return f"Without data of your own: representer fit {task} --demo"


def determining(
    config: DataclassInstance, trainer: DataclassInstance, free: Collection[str]
) -> dict[str, Any]:
    """Return the options that determine a run, but for `free` ones and those of its trainer."""
    others = {f.name for f in fields(trainer)} | set(free)
    return {name: value for name, value in asdict(config).items() if name not in others}


def command_of(task: str, config: DataclassInstance, usual: Mapping[str, Any]) -> str:
    """Return the command that repeats a run, with the options that differ from the defaults."""
    chosen = asdict(config)
    words = ["representer", "fit", task, *([chosen["data"]] if chosen["data"] else [])]
    words += ["--preset", chosen["preset"]] if chosen.get("preset") else []
    words += ["--demo"] if chosen["demo"] else []
    plain = {f.name: f.default for f in fields(config)}
    for name, value in chosen.items():
        if name in ("data", "resume", "preset", "demo") or value == usual[name]:
            continue
        words.append("--" + name.replace("_", "-"))
        if not (value is True and plain[name] is False):  # a flag
            words.append(str(value).lower() if isinstance(value, bool) else str(value))
    return shlex.join(words)


# Optional packages, and what needs them.


@dataclass(frozen=True)
class Package:
    """An optional dependency."""

    name: str  # as installed
    module: str  # as imported
    extra: str  # the extra that installs it
    megabytes: int  # approximate installed size, including its dependencies
    purpose: str  # what does not work without it


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


def require_packages(purpose: str, *names: str) -> None:
    """Require packages before a long computation that needs them at its end."""
    for package in PACKAGES:
        if package.name in names and not is_importable(package.module):
            raise MissingExtraError(purpose, package.name, package.extra)


def is_importable(module: str) -> bool:
    """Return True if a module can be found, without importing it."""
    return importlib.util.find_spec(module) is not None


# A task of the command line: what is declared once, and every command reads.
#
# Free of torch, since the command line reads the options here.

READ = ("evaluate", "predict", "explain")  # commands that read data of a run


def functions_in(
    module: str, *others: str, without: Sequence[str] = (), beside: Sequence[str] = ()
) -> dict[str, str]:
    """Return the functions of a task by name: methods of its ``FLOW``, some `beside` it."""
    names = ("fit", "drift", "comparison", "examples", *READ, *others)
    methods = {name: f"{module}:FLOW.{name}" for name in names if name not in without}
    functions = {name: f"{module}:{name}" for name in beside}
    return methods | {"as_text": "representer.estimators.explanation:as_text"} | functions


@dataclass(frozen=True)
class Task:
    """One task, such as the classification of texts.

    Functions are named as ``module:function`` or ``module:object.method``, and imported when a
    command first needs them.

    Args:
        name: As in ``representer fit NAME`` and in model.json.
        summary: One sentence for ``--help``.
        noun: What its models are of, for messages: "texts".
        config: Dataclass with the options of ``fit``; ``data`` is positional.
        defaults: From the given options to the defaults of a preset, the demo or a cell.
        options: Dataclasses with the options of ``evaluate``, ``predict``, ``explain`` and
            ``drift``; a task lacks the commands that it does not list.
        functions: ``fit(config)``, ``evaluate(run, data, *options, device)``,
            ``predict(run, data, output, *options, device)``,
            ``explain(run, data, *options, limit, top, device)``,
            ``as_text(entry, styled, by_feature, inside)`` of an explained row, ``opened(run, data,
            options, device, require_labels)`` where `export` compares predictions, and, where
            models can be compared, ``comparison(config, splits, variants)``, see
            `tasks.comparison`, and ``drift(first, second, *options, permutations, limit, seed)`` of
            two files.
        packages: Optional packages that they need.
        takes_strings: True if ``predict`` and ``explain`` take a list of strings as ``data``.
        is_shared: True if several processes can train one model; otherwise `fit` has its own.
        estimators: Its classes, as ``module:class``; ``representer.estimators`` has them by name.
    """

    name: str
    summary: str
    noun: str
    config: type[Any]
    defaults: Callable[[Any], dict[str, Any]]
    options: Mapping[str, tuple[type[Any], ...]]
    functions: Mapping[str, str]
    packages: tuple[str, ...] = ()
    takes_strings: bool = False
    is_shared: bool = True
    estimators: tuple[str, ...] = ()

    def function(self, name: str) -> Callable[..., Any]:
        """Return one of the functions, importing its module.

        Raises:
            MissingExtraError: A package that the task needs is not installed.
        """
        require_packages(f"fit {self.name}" if name == "fit" else name, *self.packages)
        return resolve_name(self.functions[name])
