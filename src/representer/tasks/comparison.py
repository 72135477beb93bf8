"""Compare models on repeated splits: run what is missing, and keep each result as it comes."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from representer.errors import (
    ArgumentError,
    DataError,
    Interrupted,
    RepresenterError,
    TrainingError,
)
from representer.estimators.explanation import BOTH
from representer.printable import say
from representer.storage import atomic
from representer.storage.files import parse_json, physical_memory, read_bytes
from representer.storage.lock import lock, reason_of
from representer.threads import limited
from representer.training.settings import plain, require_same
from representer.training.trainer_config import EXECUTION

# Options that do not change the results, or that a comparison sets itself.
WITHOUT_EFFECT = (
    *EXECUTION, "data", "valid", "test", "out", "resume", "demo", "answer", "conformal", "threads",
)  # fmt: skip
SETTINGS, RESULTS = "comparison.json", "results.jsonl"
MODEL, BASELINES = "model", "baselines"
_MOST_SETTINGS = 2**26  # bytes


@dataclass(frozen=True)
class Result:
    """A model on the test part of one split.

    Attributes:
        name: Name of the model or the baseline.
        losses: Of each test example ``(N,)``: 1 for a wrong class, the squared error of a number,
            or the negative log-likelihood of a token.
        seconds: Time of training.
        train: Number of examples for training and validation.
        is_baseline: True for a baseline.
        test: Number of test examples; that of the losses if left out.
        auc: Area under the ROC curve, for two classes.
    """

    name: str
    losses: Sequence[float]
    seconds: float
    train: int
    is_baseline: bool = False
    test: int | None = None
    auc: float | None = None


Rows = dict[str, dict[int, Result]]  # by name and split


class Unit(NamedTuple):
    """The smallest amount of work: a split, a name, and the options of a variant as JSON."""

    split: int
    name: str
    options: str


@dataclass(frozen=True, kw_only=True)
class Comparison(ABC):
    """The models of one data set, and the splits that they are trained and tested on.

    Several processes may run it, so it must be possible to pickle it.

    Args:
        config: Options of ``fit``.
        splits: Numbers of the splits.
        variants: Options of networks that are compared with the model, by the name of their row.
    """

    config: Any
    splits: Sequence[int] = range(5)
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    @abstractmethod
    def title(self) -> str:
        """The data and the kind of the splits, for the head of the table."""

    @property
    @abstractmethod
    def metric(self) -> str:
        """Name of the metric, one of `comparison_statistics.METRICS`."""

    @property
    @abstractmethod
    def has_fixed_test(self) -> bool:
        """True if all splits have the same test part and differ in their seed."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything but splits and variants that determines the results."""

    def options(self) -> dict[str, Any]:
        """Return the options of ``fit`` that determine the results."""
        chosen = asdict(self.config)
        return {name: value for name, value in chosen.items() if name not in WITHOUT_EFFECT}

    @abstractmethod
    def run(self, split: int, unit: str) -> list[Result]:
        """Train and test some rows on one split.

        Args:
            split: Number of the split.
            unit: `MODEL`, `BASELINES`, or the name of a variant.
        """

    def units(self) -> list[Unit]:
        """Return everything that is run, split by split."""
        names = (BASELINES, MODEL, *self.variants)
        return [
            Unit(split, name, json.dumps(plain(self.variants.get(name, {})), sort_keys=True))
            for split in self.splits
            for name in names
        ]


def parts_of(estimator: Any, seconds: float) -> list[tuple[str, float, Any]]:
    """Return name, seconds and estimator of everything that predicts in a fitted estimator.

    Args:
        estimator: Fitted, with one part or two; the last entry is then ``"both"``.
        seconds: Time of fitting all of it.
    """
    parts = {name: part.seconds or 0.0 for name, part in estimator.parts_.items()}
    if len(parts) == 1:
        return [(name, own, estimator) for name, own in parts.items()]
    return [(name, own, estimator.part(name)) for name, own in (parts | {BOTH: seconds}).items()]


@dataclass
class Results:
    """The results of finished units, in a JSON Lines file.

    Attributes:
        path: The file.
        by_unit: The results.
    """

    path: Path
    by_unit: dict[Unit, list[Result]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Read the results of a folder without damaged lines, which a kill may leave."""
        path = folder / RESULTS
        try:
            lines = read_bytes(path, physical_memory()).split(b"\n")[:-1]
        except FileNotFoundError:
            lines = []
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", file=path) from None
        return cls(path, dict(filter(None, map(_entry, lines))))

    def add(self, unit: Unit, results: Sequence[Result]) -> None:
        """Append the results of a unit."""
        self.by_unit[unit] = list(results)
        atomic.append(self.path, self._line(unit))

    def rewrite(self) -> None:
        """Write the file without the damaged lines, or leave it as it was."""
        atomic.write_chunks(self.path, map(self._line, self.by_unit))

    def rows(self, comparison: Comparison) -> Rows:
        """Return the results of a comparison by row and split."""
        rows: Rows = {}
        for unit in comparison.units():
            for one in self.by_unit.get(unit, ()):
                rows.setdefault(one.name, {})[unit.split] = one
        return rows

    def _line(self, unit: Unit) -> bytes:
        line = {**unit._asdict(), "results": [asdict(one) for one in self.by_unit[unit]]}
        return (json.dumps(line, allow_nan=False) + "\n").encode()


def run_missing(
    comparison: Comparison,
    folder: Path,
    *,
    jobs: int = 1,
    report: Callable[[str], None] = say,
) -> Rows:
    """Run what is missing in a folder, and return all results.

    A unit whose training diverges is reported and left out.

    Raises:
        ArgumentError: The folder holds another comparison, or other files.
        DataError: A file of the comparison is damaged.
        RunFolderError: Another process writes into the folder.
    """
    from joblib import Parallel, delayed

    with _opened(folder, comparison) as results:
        units = comparison.units()
        waiting = [unit for unit in units if unit not in results.by_unit]
        run = Parallel(n_jobs=max(1, min(jobs, len(waiting))), return_as="generator_unordered")
        outcomes: Any = run(delayed(_run)(comparison, unit) for unit in waiting)
        done = len(units) - len(waiting)
        for unit, outcome in outcomes:
            about = f"split {unit.split + 1}, {unit.name}"
            if isinstance(outcome, RepresenterError):
                report(f"{about}: {_after(outcome, folder)}")
                continue
            results.add(unit, outcome)
            done += 1
            seconds = max((one.seconds for one in outcome), default=0.0)
            report(f"{done}/{len(units)} {about}: {seconds:.1f} s")
        return results.rows(comparison)


def _after(error: RepresenterError, folder: Path) -> str:
    """Return the message of a unit's error if the other units can continue.

    Raises:
        Interrupted: A signal arrived.
        RepresenterError: Another error; only divergence does not stop the others.
    """
    if isinstance(error, TrainingError):
        return str(error)
    if isinstance(error, Interrupted):
        kept = f"Finished results are kept in {folder}; the same command continues."
        raise Interrupted(f"stopped by a signal. {kept}", error.exit_code)
    raise error


def finished(comparison: Comparison, folder: Path) -> Rows:
    """Return the results that a folder has, without running anything; see `run_missing`."""
    return Results.read(folder).rows(comparison)


def _run(comparison: Comparison, unit: Unit) -> tuple[Unit, list[Result] | RepresenterError]:
    try:
        with limited(getattr(comparison.config, "threads", None) or None):
            return unit, comparison.run(unit.split, unit.name)
    except RepresenterError as error:
        return unit, error


def _entry(line: bytes) -> tuple[Unit, list[Result]] | None:
    """Parse a line; return None if it is damaged."""
    try:
        entry = parse_json(line)
        results = [Result(**one) for one in entry.pop("results")]
        return Unit(**entry), results
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


@contextmanager
def _opened(folder: Path, comparison: Comparison) -> Iterator[Results]:
    """Lock a folder, check or write its settings, and read its results."""
    path, settings = folder / SETTINGS, plain(comparison.settings)
    others = {one.name for one in folder.iterdir() if one.name[0] != "."} if folder.is_dir() else ()
    if others and not path.exists():
        expected = "a new folder, or that of a comparison"
        raise ArgumentError("out", str(folder), expected, hint="Choose another --out.")
    descriptor = lock(folder)
    try:
        atomic.remove_leftovers(folder, say)
        if path.exists():
            try:
                before = dict(parse_json(read_bytes(path, _MOST_SETTINGS)))
            except (OSError, TypeError, ValueError) as error:
                problem, fix = f"cannot be used: {reason_of(error)}", "Choose another --out."
                raise DataError(problem, file=path, fix=fix) from None
            require_same(before, settings, folder)
        else:
            atomic.write_json(path, settings)
        results = Results.read(folder)
        results.rewrite()
        yield results
    finally:
        os.close(descriptor)
