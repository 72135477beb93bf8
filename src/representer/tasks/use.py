"""``evaluate``, ``predict`` and ``explain`` for the runs of a task that trains an estimator."""

from __future__ import annotations

import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from representer.data.splits import MOST, SPLITS, TRAINED
from representer.data.tables import left_out
from representer.errors import ArgumentError, DataError, say
from representer.estimators import base
from representer.estimators.explanation import explanations_of
from representer.estimators.improvement import suggestions
from representer.estimators.label_sets import LabelSets
from representer.estimators.parameters import AUTO
from representer.estimators.results import figures_of_sets, result_columns
from representer.estimators.supervised import NOT_FINITE
from representer.estimators.targets import Numbers, classes_of, columns_of
from representer.report import write_report
from representer.report.page import EXPLAINED, Predictions, figures_by_target
from representer.storage import atomic
from representer.storage.files import from_values
from representer.storage.run import MODEL, RunFiles, require_finite
from representer.tasks.explained_text import as_text as as_text
from representer.tasks.objects import Objects, encode_labels, strings_of, with_notes
from representer.tasks.options import Task
from representer.tasks.predictions import (
    as_csv,
    check_output,
    predicted_table,
    shown_cell,
    write_table,
)

# Explained predictions of an estimator, as explanations.json and the terminal show them.


def write_explanations(run: str | Path, entries: Sequence[dict[str, Any]]) -> None:
    """Write explanations.json into a run folder, and update the report of a finished run.

    Raises:
        StorageError: They cannot be written, for example because the folder is read-only.
    """
    folder = Path(run)
    atomic.write_json(folder / EXPLAINED, entries)
    if all((folder / name).is_file() for name in ("metrics.json", "details.json")):
        say(f"report: {write_report(folder)}")


Inputs = str | Path | Sequence[str]
COMPARISONS: dict[str, Callable[..., Any]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, ">": operator.gt,
}  # fmt: skip


class EstimatorUse(ABC):
    """The commands that use a trained estimator; a task says what differs from other tasks.

    Attributes:
        declared: The options of the task, as the command line reads them.
        noun: One object: "graph".
        remembered: The options of reading whose default is that of the training, with what a
            value is if one is required.
        remedy: The fix if `fit` can use none of its objects.
        form: Dataclass of what a run says of its data besides the options of reading, if it does.
        group: What objects that resemble each other have in common: "subject".
    """

    declared: ClassVar[Task]
    noun: ClassVar[str]
    remembered: ClassVar[Mapping[str, str]] = {}
    remedy: ClassVar[str] = ""
    form: ClassVar[type[Any] | None] = None
    group: ClassVar[str] = "group"

    @property
    def name(self) -> str:
        """The name of the task, as in ``representer fit NAME``."""
        return self.declared.name

    @property
    def reading(self) -> type[Any]:
        """Dataclass with the options of reading."""
        return self.declared.options["evaluate"][0]

    @abstractmethod
    def read(self, path: str | Path, **how: Any) -> Objects:
        """Read objects, by the options of reading, ``is_regression`` and ``require_labels``."""

    def blocks(self, path: str | Path, **how: Any) -> Iterable[Objects]:
        """Read the same block by block if data may be larger than memory; else they are one."""
        yield self.read(path, **how)

    def strings(self, strings: Sequence[str], reading: dict[str, Any]) -> Objects:
        """Return strings of the command line as objects, by the options of reading."""
        return strings_of(strings, self.noun, reading)

    def reason(self, estimator: Any, config: Any, value: Any) -> str:
        """Return the reason against using an object, if any; ``config`` is None after training."""
        return ""

    def as_trained(self, estimator: Any, form: Any) -> dict[str, Any]:
        """Return more arguments of `read`, from an estimator and the form of its data."""
        return {}

    def adapted(self, estimator: Any, form: Any, objects: Any) -> Objects:
        """Return objects in the form of the data that an estimator was trained on."""
        return objects

    def figures(
        self, form: Any, objects: Any, values: NDArray[Any], predictions: Sequence[Predictions]
    ) -> dict[str, Any]:
        """Return more metrics of objects that are one block, with their encoded labels."""
        return {}

    def groups(self, objects: Any) -> Sequence[Any]:
        """Return the group of each object, if there are groups."""
        return objects.groups

    def evaluate(
        self, run: str | Path, data: str | Path, options: Any, grouping: Any = None, *,
        device: str = AUTO,
    ) -> dict[str, Any]:  # fmt: skip
        """Evaluate a trained model on labeled objects.

        Raises:
            DataError: They cannot be used, for example for an unknown label.
        """
        estimator, form, blocks = self._opened(
            run, data, options, device=device, require_labels=True, grouping=grouping
        )
        target = estimator.target_
        values: list[NDArray[Any]] = []
        predictions: list[list[Predictions]] = []
        dropped, names, more = 0, [], {}
        seen: list[NDArray[np.int64]] = []
        groups: list[str] = []
        for objects in with_notes(blocks):
            dropped += len(objects.dropped)
            if len(objects.columns) != (count := len(columns_of(target))):
                columns = ", ".join(str(name) for name, _ in objects.columns)
                problem = f"the targets are {columns}; the model has {count}"
                fix = "Name the targets of the training."
                raise DataError(problem, file=objects.source, fix=fix)
            if not len(objects):
                continue
            values.append(encode_labels(objects, classes_of(target)))
            predictions.append(self._checked(run, estimator, objects))
            names = objects.targets
            seen.append(estimator.digests(objects.objects))
            groups += self.groups(objects)
            more = self.figures(form, objects, values[-1], predictions[-1])
        joined = [Predictions.joined(parts) for parts in zip(*predictions, strict=True)]
        columns = result_columns(names, np.concatenate(values), target)
        digests = np.concatenate(seen)
        figures = figures_by_target(columns, joined, digests, groups or None)
        trained_on = count_trained_on(run, data, digests, self.noun)
        if isinstance(target, LabelSets):
            more = more | figures_of_sets(columns, joined, digests)
        about = {"run": str(run), "data": str(data), "left_out": dropped, TRAINED: trained_on}
        return about | ({"targets": figures} if names else figures) | more

    def predict(
        self,
        run: str | Path,
        data: Inputs,
        output: str | Path | None,
        options: Any,
        *,
        device: str = AUTO,
    ) -> None:
        """Write the rows of the input, in order, or the number of each object, with predictions.

        A row that cannot be used keeps its place without a prediction; stderr says which.

        Raises:
            DataError: The objects or the path of the output cannot be used.
            StorageError: The output cannot be written.
        """
        if output is not None:
            check_output(Path(output), Path(data) if isinstance(data, str | Path) else None)
        estimator, _, blocks = self._opened(run, data, options, device=device)
        parts = predicted_table(
            blocks, lambda objects: self._checked(run, estimator, objects),
            lambda one: self.reason(estimator, None, one), classes_of(estimator.target_), self.noun,
            output, self.labels_of(estimator),
        )  # fmt: skip
        write_table(output, parts)

    def labels_of(self, estimator: Any) -> LabelSets | None:
        """Return the labels of which an object has any number; None for other targets."""
        target = estimator.target_
        return target if isinstance(target, LabelSets) else None

    def explain(
        self,
        run: str | Path,
        data: Inputs,
        options: Any,
        *,
        limit: int,
        top: int,
        device: str = AUTO,
        report: bool = False,
    ) -> list[dict[str, Any]]:
        """Explain the predictions for the first objects.

        With `report`, write explanations.json into the run folder and update its report.

        Raises:
            StorageError: The run folder cannot be written.
            DataError: The objects cannot be used.
            KindError: The model has no exact contributions, with the reason.
        """
        estimator, objects = self.to_predict(run, data, options, device)
        first = objects.subset(range(min(limit, len(objects))))
        name = Path(objects.source).name
        entries = [entry | {"source": name} for entry in self.entries(run, estimator, first, top)]
        if report:
            write_explanations(run, entries)
        return entries

    def suggest(
        self,
        run: str | Path,
        data: str | Path,
        options: Any,
        *,
        k: int,
        maximize: bool = True,
        cost: str | None = None,
        where: Sequence[str] = (),
        best: float | None = None,
        of: str | None = None,
        device: str = AUTO,
        output: str | Path | None = None,
    ) -> None:
        """Write the rows of a pool to measure next, see `Regressor.suggest`.

        Raises:
            DataError: The objects, a cost or a condition cannot be used.
            ArgumentError: The model predicts no numbers, or an option is out of its range.
        """
        if output is not None:
            check_output(Path(output), Path(data))
        estimator, objects = self.to_predict(run, data, options, device)
        names = list(objects.targets)
        if not isinstance(estimator.target_, Numbers):
            raise ArgumentError("RUN", str(run), "the run of a regression")
        if of is not None and of not in names:
            raise ArgumentError("of", of, f"one of {', '.join(names) or 'the targets'}")
        chosen = suggestions(
            estimator, objects.objects, k, maximize=maximize, best=best,
            costs=None if cost is None else numbers_in(objects, cost),
            allowed=allowed_by(objects, where), target=names.index(of) if of else 0,
        )  # fmt: skip
        head = list(objects.table.head) if objects.table else [self.noun]
        rows = dict(zip(objects.table.lines, objects.table.rows, strict=True)
                    if objects.table else ())  # fmt: skip
        lines = [[*head, "prediction", "uncertainty", "improvement"]]
        for index, *numbers in chosen:
            row = rows.get(objects.lines[index], [objects.numbers[index]])
            lines.append([*map(shown_cell, row), *(f"{number:.6g}" for number in numbers)])
        write_table(output, [as_csv(lines)])

    def entries(
        self, run: str | Path, estimator: Any, objects: Objects, top: int
    ) -> list[dict[str, Any]]:
        """Return the explanation of each object, as in explanations.json."""
        predictions = self._checked(run, estimator, objects)
        noun = "line" if objects.is_numbered_by_line else self.noun
        entries = explanations_of(
            estimator, objects.objects, predictions, objects.numbers, noun, top, objects.targets
        )
        names = dict(zip(objects.numbers, objects.names, strict=False))
        for entry in entries if names else ():
            entry["name"] = names[entry["row"]]
        require_finite(run, [entry[name] for entry in entries for name in ("score", "constant")])
        return entries

    def opened(
        self,
        run: str | Path,
        data: Inputs,
        options: Any,
        *,
        device: str,
        require_labels: bool = False,
    ) -> tuple[Any, Any, Any]:
        """Return the estimator of a run, the form of its data, and objects as it takes them."""
        estimator, form, blocks = self._opened(
            run, data, options, device=device, require_labels=require_labels, in_blocks=False
        )
        (objects,) = blocks
        return estimator, form, objects

    def _opened(
        self,
        run: str | Path,
        data: Inputs,
        options: Any,
        *,
        device: str,
        require_labels: bool = False,
        in_blocks: bool = True,
        grouping: Any = None,
    ) -> tuple[Any, Any, Iterator[Objects]]:
        """Return the same with the objects in blocks, on request."""
        is_path = isinstance(data, str | Path)
        estimator, reading, form = self.load(run, options, device, is_path=is_path)
        if not is_path:
            return estimator, form, iter([self.strings(data, reading)])
        how_read = {"is_regression": isinstance(estimator.target_, Numbers)}
        how_read |= self.as_trained(estimator, form)
        groups = grouping and grouping.groups
        how = reading | how_read | {"require_labels": require_labels}
        how |= {"groups": groups} if groups else {}
        objects = self.blocks(data, **how) if in_blocks else [self.read(data, **how)]
        if require_labels and how_read["is_regression"]:
            objects = (block.with_numbers() for block in objects)
        if groups:
            objects = (block.in_groups() for block in objects)
        return estimator, form, (self.adapted(estimator, form, block) for block in objects)

    def to_predict(
        self, run: str | Path, data: Inputs, options: Any, device: str
    ) -> tuple[Any, Objects]:
        """Return the estimator of a run, and the objects that it can predict."""
        estimator, _, objects = self.opened(run, data, options, device=device)
        objects = objects.usable(lambda one: self.reason(estimator, None, one), self.noun)
        for line in (*objects.notes, left_out(objects.dropped)):
            if line:
                say(f"{objects.source}: {line.replace('left out', 'without a prediction')}")
        return estimator, objects

    def load(
        self, run: str | Path, options: Any, device: str, *, is_path: bool = True
    ) -> tuple[Any, dict[str, Any], Any]:
        """Return the estimator of a run, and how to read data: as in training, unless options say.

        Returns:
            The estimator, the options of reading, and the form of the data of training.

        Raises:
            DataError: The run is damaged.
            ArgumentError: There is no such device, or a required option of reading is neither given
                nor known to the run.
        """
        estimator: Any = base.load(run, device=device)
        files, values = RunFiles(run), asdict(options)
        usual = {option.name: option.default for option in fields(self.reading)}
        saved = base.read_description(files).reading
        remembered = {name: saved[name] for name in self.remembered if name in saved}
        trained = files.parsed(MODEL, lambda: from_values(self.reading, remembered))
        reading = {
            name: getattr(trained, name) if value == usual[name] else value
            for name, value in values.items()
        }
        for name, expected in self.remembered.items():
            if is_path and expected and not reading[name]:
                hint = "The run says nothing about tables: it was saved from Python."
                raise ArgumentError(name, reading[name], expected, hint=hint)
        rest = {name: value for name, value in saved.items() if name not in usual}
        form = self.form and files.parsed(MODEL, partial(from_values, self.form, rest))
        return estimator, reading, form

    def _checked(self, run: str | Path, estimator: Any, objects: Objects) -> list[Predictions]:
        """Return predictions; messages name the source of the objects, or the run."""
        try:
            return self._predictions(run, estimator, objects.objects)
        except DataError as error:
            is_model = NOT_FINITE in str(error)
            raise DataError(str(error), file=run if is_model else objects.source) from None

    def _predictions(
        self, run: str | Path, estimator: Any, objects: Sequence[Any]
    ) -> list[Predictions]:
        return estimator.predictions(objects)


def numbers_in(objects: Objects, column: str) -> NDArray[np.float64]:
    """Return the numbers of a column of the table ``(N,)``."""
    if objects.table is None or column not in objects.table.columns:
        names = ", ".join(objects.table.columns) if objects.table else "none"
        problem = f"there is no column {column!r}; the columns are {names}"
        raise DataError(problem, file=objects.source)
    position = objects.table.columns.index(column)
    cells = {line: row[position] for line, row in
             zip(objects.table.lines, objects.table.rows, strict=True)}  # fmt: skip
    numbers = []
    for line in objects.lines:
        try:
            numbers.append(float(str(cells[line])))
        except ValueError:
            problem = f"{shown_cell(cells[line])!r} is not a number"
            raise DataError(problem, file=objects.source, line=line, column=column) from None
    return np.array(numbers)


def allowed_by(objects: Objects, conditions: Sequence[str]) -> NDArray[np.bool_]:
    """Return which objects meet every condition ``(N,)``, such as ``weight<=500``.

    Raises:
        ArgumentError: A condition is of another form.
        DataError: There is no such column, or a cell is no number.
    """
    result = np.ones(len(objects), bool)
    for condition in conditions:
        parts = re.fullmatch(r"(.+?)\s*(<=|>=|==|!=|<|>)\s*([^<>=!]+)", condition.strip())
        try:
            column, sign, limit = parts.groups() if parts else ("", "", "")
            bound = float(limit)
        except ValueError:
            raise ArgumentError("where", condition, "a condition such as 'weight<=500'") from None
        result &= COMPARISONS[sign](numbers_in(objects, column), bound)
    return result


def count_trained_on(run: str | Path, data: Any, digests: NDArray[np.int64], noun: str) -> int:
    """Return how many objects are among those that a run was trained on, and say so."""
    files = RunFiles(run)
    listed = files.json(SPLITS).get(TRAINED, "") if files.has(SPLITS) else ""
    trained = files.parsed(SPLITS, lambda: np.frombuffer(bytes.fromhex(listed), np.int64))
    if count := int(np.isin(digests, trained).sum()):
        shown = "at least " * (len(trained) >= MOST) + str(count)
        say(f"{data}: {shown} of {len(digests)} {noun}s are those that the model was trained on; "
            "only others measure generalization")  # fmt: skip
    return count
