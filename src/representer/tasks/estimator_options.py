"""Options of ``fit`` for a task that trains an estimator: those of the run and its parameters.

Free of torch, since the command line reads its options here.
"""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, field, fields, make_dataclass
from typing import Any, get_args, get_type_hints

from representer.errors import ArgumentError
from representer.tasks.options import option

KINDS = ("auto", "classification", "regression")

# `seed` and `threads` replace two of them; the others have no meaning on the command line.
_NOT_OPTIONS = ("random_state", "n_jobs", "callbacks", "verbose", "warm_start")


@dataclass(frozen=True)
class EstimatorConfig:
    """The options of every such task; `config_of` adds those of reading and of the estimator.

    Raises:
        ArgumentError: If a value is out of its range, or two options exclude each other.
    """

    data: str | None = option(None, "labeled data: a file or a folder")
    out: str | None = option(None, "run folder (default: runs/NAME-OF-DATA)", metavar="RUN")
    valid: str | None = option(None, "validation data, instead of a part of DATA", metavar="DATA")
    test: str | None = option(None, "test data, instead of a part of DATA", metavar="DATA")
    test_fraction: float = option(0.1, "fraction of DATA used for testing")
    kind: str = option(
        "auto", "what labels are (auto: regression if they are fractions)", choices=KINDS
    )
    seed: int = option(0, "random seed of split, weights, order and dropout")
    threads: int = option(0, "CPU threads; 0: default of torch")
    baselines: bool = option(True, "also train the baselines")
    resume: bool = option(False, "continue from the newest checkpoint of the run folder")
    demo: bool = option(False, "no DATA: synthetic data")

    def __post_init__(self) -> None:
        for name in ("valid_fraction", "test_fraction"):
            if not 0 < getattr(self, name) < 1:
                raise ArgumentError(name, getattr(self, name), "a number between 0 and 1")
        total = getattr(self, "valid_fraction") + self.test_fraction  # noqa: B009
        if total >= 1:
            raise ArgumentError("valid_fraction + test_fraction", total, "less than 1")
        if self.seed < 0:
            raise ArgumentError("seed", self.seed, "0 or more")
        if self.kind not in KINDS:
            raise ArgumentError("kind", self.kind, "one of " + ", ".join(KINDS))
        if self.demo and any((self.data, self.valid, self.test)):
            path = self.data or self.valid or self.test
            raise ArgumentError("data", path, "nothing with --demo, which has its own data")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, as in config.yaml."""
        return asdict(self)


def config_of(name: str, module: str, reading: type[Any], parameters: type[Any]) -> type[Any]:
    """Return the dataclass with the options of ``fit``.

    Args:
        name: Its name.
        module: The module that keeps it.
        reading: Dataclass with the options of reading data.
        parameters: Dataclass with the parameters of the estimator.
    """
    own: list[tuple[str, Any, Any]] = []
    for kind in (reading, parameters):
        hints = get_type_hints(kind)
        for one in fields(kind):
            if one.name not in _NOT_OPTIONS:
                copied = field(default=one.default, metadata=one.metadata)
                own.append((one.name, _of_command_line(hints[one.name]), copied))
    about = {
        "__module__": module,
        "__doc__": "Options of ``fit``: of the run, of reading and of the estimator.",
    }
    return make_dataclass(name, own, bases=(EstimatorConfig,), frozen=True, namespace=about)


def defaults(config: type[Any], demo: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of all options, with those of the demo."""
    usual = {one.name: one.default for one in fields(config) if one.default is not MISSING}
    return usual | demo


def parameters_of(config: Any, estimator: type[Any]) -> dict[str, Any]:
    """Return the options that are parameters of an estimator, as its constructor takes them."""
    names = {one.name for one in fields(estimator)} - set(_NOT_OPTIONS)
    chosen = {one.name: getattr(config, one.name) for one in fields(config) if one.name in names}
    return chosen | {"random_state": config.seed, "n_jobs": config.threads or None}


def refuse_parameters_of_others(config: Any, estimator: type[Any], parameters: type[Any]) -> None:
    """Refuse an option that the estimator lacks, such as one of the regressor for a classifier.

    Raises:
        ArgumentError: It differs from its default.
    """
    own = {one.name for one in fields(estimator)}
    for one in fields(parameters):
        if one.name in own or one.name in _NOT_OPTIONS:
            continue
        value = getattr(config, one.name)
        if value != one.default:
            expected = f"nothing, since {estimator.__name__} does not have it"
            raise ArgumentError(one.name, value, expected)


def _of_command_line(hint: Any) -> Any:
    """Return the type of an option; what may be a number or a text is typed as a text."""
    return str if {float, str} <= set(get_args(hint)) else hint
