"""``evaluate``, ``predict`` and ``explain`` for the runs of a task that trains an estimator."""

from __future__ import annotations

import csv
import hashlib
import json
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from representer.data.splits import MOST, SPLITS, TRAINED
from representer.data.tables import LeftOut, left_out
from representer.data.tables import files as formats
from representer.data.tables.reading import kind_of, table_files
from representer.errors import ArgumentError, DataError, StorageError, plural, printable, say
from representer.estimators import base
from representer.estimators.explanation import as_text as as_text
from representer.estimators.explanation import explanations_of
from representer.estimators.improvement import suggestions
from representer.estimators.label_sets import LabelSets, sets_of
from representer.estimators.linear_models import MANY, RANKS, best_classes
from representer.estimators.results import figures_of_sets, result_columns
from representer.estimators.supervised import NOT_FINITE
from representer.estimators.targets import Numbers, classes_of, columns_of
from representer.jobs import completed
from representer.options.task import AUTO, Streaming, Task
from representer.report import write_report
from representer.report.page import EXPLAINED, Predictions, figures_by_target
from representer.storage import atomic
from representer.storage.atomic import from_values
from representer.storage.run import MODEL, OF_PREDICTIONS, RunFiles, require_finite
from representer.tasks.objects import (
    Objects,
    allowed_by,
    encode_labels,
    none_usable,
    numbers_in,
    shown_cell,
    strings_of,
    with_notes,
)
from representer.tasks.worklist import WorkList, locked

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


class EstimatorUse(ABC):
    """The commands that use a trained estimator; a task says what differs from other tasks.

    Attributes:
        declared: The options of the task, as the command line reads them.
        noun: One object: "graph".
        remembered: The options of reading whose default is that of the training, with what a
            value is if one is required.
        columns: Those that name columns of a table, which files of other formats do not have.
        remedy: The fix if `fit` can use none of its objects.
        form: Dataclass of what a run says of its data besides the options of reading, if it does.
        group: What objects that resemble each other have in common: "subject".
    """

    declared: ClassVar[Task]
    noun: ClassVar[str]
    remembered: ClassVar[Mapping[str, str]] = {}
    columns: ClassVar[Collection[str]] = ()
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
        streaming: Streaming | None = None,
        *,
        device: str = AUTO,
    ) -> None:
        """Write the rows of the input, in order, or the number of each object, with predictions.

        A row that cannot be used keeps its place without a prediction; stderr says which. With
        ``stream``, objects are read step by step, and there is a row for each step.

        Raises:
            DataError: The objects or the path of the output cannot be used.
            ArgumentError: The model needs whole objects, with ``stream``.
            StorageError: The output cannot be written.
        """
        if output is not None:
            check_output(Path(output), Path(data) if isinstance(data, str | Path) else None)
        if streaming and streaming.stream:
            table = self.streamed(run, *self.opened(run, data, options, device=device))
            return write_table(output, [as_csv(table)])
        estimator, _, blocks = self._opened(run, data, options, device=device)
        parts = predicted_table(
            blocks, lambda objects: self._checked(run, estimator, objects),
            lambda one: self.reason(estimator, None, one), classes_of(estimator.target_), self.noun,
            output, self.labels_of(estimator),
        )  # fmt: skip
        return write_table(output, parts)

    def streamed(
        self, run: str | Path, estimator: Any, form: Any, objects: Any
    ) -> Iterable[Sequence[object]]:
        """Return the head and the rows of the predictions for each step of the objects."""
        raise NotImplementedError

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
        if not isinstance(estimator.target_, Numbers):
            raise ArgumentError("RUN", str(run), "the run of a regression")
        names = list(objects.targets)
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
        lines: list[list[object]] = [[*head, "prediction", "uncertainty", "improvement"]]
        for index, *numbers in chosen:
            row = rows.get(objects.lines[index], [objects.numbers[index]])
            lines.append([*row, *(f"{number:.6g}" for number in numbers)])
        write_table(output, [as_csv([*map(shown_cell, row)] for row in lines)])

    def entries(
        self, run: str | Path, estimator: Any, objects: Objects, top: int
    ) -> list[dict[str, Any]]:
        """Return the explanation of each object, as in explanations.json."""
        predictions = self._checked(run, estimator, objects)
        noun = objects.place if objects.is_numbered_by_line else self.noun
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
        self, run: str | Path, data: Inputs, options: Any, *, device: str,
        require_labels: bool = False, in_blocks: bool = True, grouping: Any = None,
    ) -> tuple[Any, Any, Iterator[Objects]]:  # fmt: skip
        """Return the same with the objects in blocks, on request."""
        path = Path(data) if isinstance(data, str | Path) else None
        estimator, reading, form = self.load(run, options, device, path=path)
        if not isinstance(data, str | Path):
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
        for line in filter(None, (*objects.notes, left_out(objects.dropped))):
            say(f"{objects.source}: {line.replace('left out', 'without a prediction')}")
        return estimator, objects

    def load(
        self, run: str | Path, options: Any, device: str, *, path: Path | None = None
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
        columns = self.columns if path and formats.format_of(path) in formats.TASKS else ()
        names = {*self.remembered} & {*saved} - {*columns}
        remembered = {name: saved[name] for name in names}
        trained = files.parsed(MODEL, lambda: from_values(self.reading, remembered))
        reading = {
            name: getattr(trained, name) if value == usual[name] else value
            for name, value in values.items()
        }
        for name, expected in self.remembered.items():
            if path and expected and not reading[name]:
                hint = "The run says nothing about tables: it was saved from Python."
                raise ArgumentError(name, reading[name], expected, hint=hint)
        rest = {name: value for name, value in saved.items() if name not in usual}
        form = self.form and files.parsed(MODEL, partial(from_values, self.form, rest))
        return estimator, reading, form

    def _checked(self, run: str | Path, estimator: Any, objects: Objects) -> list[Predictions]:
        """Return predictions; messages name the source of the objects, or the run."""
        with objects.named():
            try:
                return self._predictions(run, estimator, objects.objects)
            except DataError as error:
                if NOT_FINITE not in str(error):
                    raise
                failed = str(error)
        raise DataError(failed, file=run)

    def _predictions(
        self, run: str | Path, estimator: Any, objects: Sequence[Any]
    ) -> list[Predictions]:
        return estimator.predictions(objects)


def count_trained_on(run: str | Path, data: Any, digests: NDArray[np.int64], noun: str) -> int:
    """Return how many objects are among those that a run was trained on, and say so."""
    files = RunFiles(run)
    listed = files.json(SPLITS).get(TRAINED, "") if files.has(SPLITS) else ""
    trained = files.parsed(SPLITS, lambda: np.frombuffer(bytes.fromhex(listed), np.int64))
    if count := int(np.isin(digests, trained).sum()):
        shown = "at least " * (len(trained) >= MOST) + str(count)
        objects = f"{shown} of {len(digests)} {plural(noun)}"
        say(f"{data}: {objects} are those that the model was trained on; "
            "only others measure generalization")  # fmt: skip
    return count


# The rows of a table with their predictions, block by block in constant memory.

# Tables that commands write: checks of the output before any work, CSV, and atomic writing.


def check_output(output: Path, data: Path | None) -> None:
    """Refuse an output that could not be written, before any work is done."""
    if output.is_dir():
        raise DataError("is a directory", file=output, fix="Give -o the name of a file.")
    if not output.parent.is_dir():
        raise DataError("there is no such folder", file=output.parent, fix="Make it first.")
    if kind_of(output) not in (None, "csv") or output.suffix.lower() in formats.COMPRESSIONS:
        problem = "the suffix is that of another format; what is written is CSV"
        raise DataError(problem, file=output, fix="Give -o a name that ends in .csv.")
    if data is not None and data.exists() and output.exists() and output.samefile(data):
        raise DataError("is the input", file=output, fix="Give -o another name.")


def refuse_same_columns(added: Sequence[str], columns: Sequence[str], source: str) -> None:
    """Refuse to add columns that the input already has."""
    for name in added:
        if name in columns:
            fix = "Rename it in the input."
            problem = "the input already has this column"
            raise DataError(problem, file=source, column=name, fix=fix)


def added_columns(
    objects: Objects, predictions: Sequence[Predictions], classes: Sequence[Sequence[str]],
    labels: LabelSets | None = None,
) -> tuple[list[str], dict[int, list[str]]]:  # fmt: skip
    """Return the names of the added columns, and their cells by line.

    Of any number of labels an object, they are the list of the predicted ones, in JSON, and the
    probability of each label; of labels in columns of their own, their predictions, too. Of very
    many classes, the five best stand in the order of their probabilities.
    """
    if labels is not None:
        return _columns_of_sets(objects, predictions, labels)
    names = objects.targets if len(objects.targets) == len(predictions) else ()
    ends = [f"_{name}" for name in names or range(1, len(predictions) + 1)]
    added: list[str] = []
    parts: list[list[list[str]]] = []
    for k, columns in enumerate(predictions):
        end = ends[k] if len(predictions) > 1 else ""
        if columns.chances is not None:
            added += [f"prediction{end}", f"probability{end}"]
            pairs = zip(columns.values.tolist(), columns.chances.tolist(), strict=True)
            parts.append([[classes[k][int(number)], f"{chance:.6f}"] for number, chance in pairs])
            continue
        if columns.probabilities is None:
            added += [f"prediction{end}", f"uncertainty{end}"]
            deviations = np.zeros(0) if columns.deviations is None else columns.deviations
            numbers = [columns.values, deviations]
            if columns.half_widths is not None:
                added += [f"low{end}", f"high{end}"]
                numbers += [
                    columns.values - columns.half_widths,
                    columns.values + columns.half_widths,
                ]
            rows = np.stack(numbers, 1).tolist()
            parts.append([[f"{number:.9g}" for number in row] for row in rows])
            continue
        if len(classes[k]) >= MANY:  # a file of thousands of columns is read by nobody
            added += [f"{what}{end}{n}" for n in RANKS for what in ("prediction", "probability")]
            rows = best_classes(columns.probabilities, classes[k])
        else:
            added += [f"prediction{end}", *(f"probability{end}_{name}" for name in classes[k])]
            pairs = zip(columns.values.tolist(), columns.probabilities.tolist(), strict=True)
            rows = [[classes[k][int(c)], *[f"{p:.6f}" for p in chances]] for c, chances in pairs]
        if columns.sets is not None:
            added.append(f"prediction_set{end}")
            for row, inside in zip(rows, columns.sets, strict=True):
                row.append(json.dumps([classes[k][c] for c in np.flatnonzero(inside).tolist()]))
        parts.append(rows)
    joined = ([*chain.from_iterable(row)] for row in zip(*parts, strict=True))
    joined = parts[0] if len(parts) == 1 else joined
    return added, dict(zip(objects.lines, joined, strict=True))


def _columns_of_sets(
    objects: Objects, predictions: Sequence[Predictions], labels: LabelSets
) -> tuple[list[str], dict[int, list[str]]]:
    """Return the columns of any number of labels an object; see `added_columns`."""
    names = [str(label) for label in labels.labels]
    added = ["prediction", *(f"prediction_{n}" for n in names if labels.is_table),
             *(f"probability_{n}" for n in names)]  # fmt: skip
    rows = {}
    for line, (there, predicted) in zip(objects.lines, sets_of(labels, predictions), strict=True):
        flags = [str(int(name in there)) for name in names] if labels.is_table else []
        chances = [f"{chance:.6f}" for chance in predicted.values()]
        rows[line] = [json.dumps(there, ensure_ascii=False), *flags, *chances]
    return added, rows


class _Lines(list[str]):
    """Rows that a writer of CSV has written."""

    def write(self, line: str) -> None:
        self.append(line)


def as_csv(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV; text that a spreadsheet program would run as a formula is guarded.

    See :func:`guard_formula`: numbers stay numbers, and a label such as ``-ve`` becomes ``'-ve``.
    ``evaluate`` accepts a guarded label for its class; everything else is read as it is written.
    """
    lines = _Lines()
    end = "\r\n"  # a cell with either of its characters is quoted
    writer = csv.writer(lines, lineterminator=end)
    writer.writerows(
        [
            cell if cell[:1] not in formats.GUARDED else formats.guard_formula(cell)
            for cell in map(str, row)
        ]
        for row in rows
    )
    return "".join(f"{line.removesuffix(end)}\n" for line in lines)


def write_table(output: str | Path | None, parts: Iterable[str]) -> None:
    """Write a file completely or not at all; None is stdout, which gets part by part.

    Its parts may be computed while it is written.
    """
    if output is None:
        for text in parts:
            sys.stdout.write(printable(text, keep="\n\t") if sys.stdout.isatty() else text)
        return
    path = Path(output)
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):  # a device or a pipe: not replaced
        try:
            with path.open("w", encoding="utf-8", newline="") as file:
                file.writelines(parts)
        except OSError as error:
            raise StorageError(path, error) from error
        return
    atomic.write_chunks(path, (text.encode() for text in parts))


def predicted_table(
    blocks: Iterable[Objects], predict: Callable[[Objects], Sequence[Predictions]],
    reason: Callable[[Any], str], classes: Sequence[Sequence[str]], noun: str,
    output: str | Path | None,
    labels: LabelSets | None = None,
) -> Iterator[str]:  # fmt: skip
    """Yield the text of a CSV file with the rows of the input, in order, and their predictions.

    A row that cannot be used keeps its place without a prediction; stderr says which. ``reason`` is
    that against using an object, empty if there is none; ``output`` must not be one of the files
    that are read.
    """
    head: list[str] = []  # known from the first predictions on
    waiting: list[list[str]] = []
    dropped = LeftOut()
    source, column = "", None
    kept = (block.without(reason) for block in blocks)
    for objects in with_notes(kept, "without a prediction"):
        source, column, rows = objects.source, objects.column, dict[int, list[str]]()
        for file in objects.files if output is not None else ():
            check_output(Path(output or ""), file)
        dropped.add(objects.dropped)
        if len(objects):
            predictions = predict(objects)
            added, rows = added_columns(objects, predictions, classes, labels)
            if not head:
                columns = objects.table.head if objects.table else [noun]
                refuse_same_columns(added, columns, objects.source)
                head = [*columns, *added]
                yield as_csv([head])
        waiting += _written(objects, rows)
        if head:
            yield as_csv([*row, *[""] * (len(head) - len(row))] for row in waiting)
            waiting = []
    if not head:
        raise none_usable(dropped.total, dropped, noun, source, column)


def _written(objects: Objects, rows: Mapping[int, list[str]]) -> Iterator[list[str]]:
    """Yield the rows of a block, each with its predictions if it has any."""
    if objects.table is None:
        cells = [[str(row)] for row in objects.rows]
        lines = objects.lines
    else:
        cells = [[*map(shown_cell, row)] for row in objects.table.rows]
        lines = objects.table.lines
    for line, row in zip(lines, cells, strict=True):
        yield [*row, *rows.get(line, ())]


# Predictions of a table in many files, one output for each, by the backends of joblib.
#
# An output is written completely or not at all, and a work list has those that are there with the
# size and time of their input, so the same command continues after an interruption.

RECORD, RESULTS = "predictions.json", "predictions.jsonl"


def predict_parts(
    task: Task, run: str | Path, data: str | Path, output: str | Path, options: Sequence[Any], *,
    device: str, n_jobs: int | None,
) -> None:  # fmt: skip
    """Write the predictions of each file of a table into a folder, as ``NAME.csv``.

    Workers read and write the files themselves, so on several machines the folders are shared.

    Raises:
        ArgumentError: The folder holds other files.
        RunFolderError: Another process writes into the folder.
        StorageError: An output cannot be written.
    """
    folder = Path(output)
    parts = _outputs(table_files(data), folder)
    with locked(folder, RECORD, "predictions", option="output"):
        try:
            work: WorkList[str, list[int]] = WorkList(
                folder, (RECORD, RESULTS), _described(run, options),
                lambda name, state: {"part": name, "state": state},
                lambda line: (line["part"], line["state"]),
            )  # fmt: skip
        except ArgumentError:
            fix = "Choose another folder."
            raise DataError("holds predictions of another model", file=folder, fix=fix) from None
        missing = [
            name
            for name, source in parts.items()
            if work.finished.get(name) != _state(source) or not (folder / name).is_file()
        ]
        try:
            for name, state in completed(
                _predict, missing,
                lambda name: (task, run, parts[name], folder / name, options, device), n_jobs,
                "files",
            ):  # fmt: skip
                work.add(name, state)
        finally:
            atomic.remove_leftovers(folder, say)
    there = f"; {len(parts) - len(missing)} were there" if len(missing) < len(parts) else ""
    say(f"{folder}: predictions of {len(parts)} files{there}")


def _outputs(files: Iterable[Path], folder: Path) -> dict[str, Path]:
    """Return the inputs by the name of their output."""
    if folder.is_file():
        raise DataError("is a file", file=folder, fix="With --jobs, give -o the name of a folder.")
    named: dict[str, Path] = {}
    for path in files:
        name = f"{formats.uncompressed(path).stem}.csv"
        if name in named:
            fix = "Predict them into folders of their own."
            raise DataError(f"has the same name as {named[name]}", file=path, fix=fix)
        if path.resolve() == (folder / name).resolve():
            raise DataError("is the input", file=folder / name, fix="Give -o another folder.")
        named[name] = path
    return named


def _described(run: str | Path, options: Sequence[Any]) -> dict[str, Any]:
    """Return what predictions depend on besides their input."""
    files = (Path(run, name) for name in OF_PREDICTIONS)
    model = {file.name: hashlib.sha256(file.read_bytes()).hexdigest()
             for file in files if file.is_file()}  # fmt: skip
    return {"format": "representer predictions 1", "model": model, "options": repr(options)}


def _state(path: Path) -> list[int]:
    """Return size and time of a file."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _predict(
    task: Task, run: str, source: Path, output: Path, options: Sequence[Any], device: str
) -> list[int]:
    """Predict one file; return its state before it was read."""
    state = _state(source)
    task.function("predict")(run, source, output, *options, device=device)
    return state
