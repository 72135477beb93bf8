"""A trained model behind JSON: predictions and explanations of objects, and streams."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from representer.data.graphs import parse_graph, tree_record
from representer.data.signals import Standardization
from representer.errors import ArgumentError, DataError, KindError
from representer.estimators import base
from representer.estimators.explanation import explanations_of
from representer.estimators.graph_inputs import PlainGraph
from representer.estimators.label_sets import LabelSets, sets_of
from representer.estimators.language import LanguageModel
from representer.estimators.language_training import LAST
from representer.estimators.sequence import read_sequences
from representer.estimators.series import SeriesHalves, read_series
from representer.estimators.signal import SignalClassifier, SignalInputs, check_windows
from representer.estimators.targets import classes_of
from representer.models.signal_classifier import SignalStream
from representer.options.task import AUTO
from representer.report.page import Predictions
from representer.serving import Limits
from representer.storage.run import RunFiles

NOTE = "it has nothing that training had: its prediction says nothing about it"
NEXT = 10  # most probable next tokens in an answer
Json = dict[str, Any]
_ATOM = re.compile(r"\[[^][]*\]|Br|Cl|[A-Za-z*]")  # of a SMILES


class ServedModel:
    """The model of a run folder.

    Texts, SMILES and the beginnings of texts are strings; a window of a signal is an array of
    channels, each an array of samples; a series is an array of numbers, null where one is missing,
    or of such arrays; a sequence is a string of letters or an array of tokens; a graph is an object
    as in JSON Lines files. Where signals were standardized by subject in training, the windows of a
    request are those of one subject.

    Args:
        run: The run folder.
        device: Device of its network, see `estimators.load`.

    Raises:
        DataError: The folder holds no trained model, or a damaged one.
    """

    def __init__(self, run: str | Path, *, device: str = AUTO) -> None:
        self._loaded_from, self.limits = (run, device), Limits()
        self.estimator: Any = base.load(run, device=device)
        description = base.read_description(RunFiles(run))
        self.task, self.version = description.task, description.version
        reading = self.estimator.reading_
        names = {what: reading.get(f"{what[:-1]}_columns") for what in ("nodes", "edges")}
        self._columns = {what: listed for what, listed in names.items() if listed}
        self._is_by_subject = reading.get("is_standardized_by_subject") is True
        # windows that are recentered together are those of one subject, who sent the request
        self.takes_objects_of_several_requests = not getattr(self.estimator, "recenter", None)
        target = reading.get("target")
        self.targets = tuple(target.split(",")) if isinstance(target, str) and target else ()
        self.targets = self.targets or tuple(reading.get("targets", ()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process loads the model."""
        return partial(ServedModel, device=self._loaded_from[1]), self._loaded_from[:1]

    def describe(self) -> Json:
        """Return the task, the classes and the parts of the model."""
        shares = {name: half.share for name, half in self.estimator.parts_.items()}
        estimator = type(self.estimator).__name__
        about: Json = {"task": self.task, "estimator": estimator, "version": self.version}
        return about | {"answer": self.estimator.answer, "shares": shares, "classes": self.classes}

    def read(self, inputs: Sequence[Any]) -> list[Any]:
        """Return objects of JSON as the estimator takes them.

        Raises:
            DataError: One of them is of another kind, or larger than the limits; the message names
                its row.
        """
        if self.task in ("series", "sequence"):
            objects = (read_series if self.task == "series" else read_sequences)(inputs)
            for row, value in enumerate(objects):
                self.check_size(f"inputs[{row}]", value)
            return objects
        if self.task != "signal":
            return [self._read(value, row) for row, value in enumerate(inputs)]
        windows = check_windows(inputs, 1)
        self.check_size("inputs[0]", windows[0])
        if self._is_by_subject:
            by_subject = Standardization("subject")
            return SignalInputs(by_subject, windows.shape[1]).encode(windows)
        return list(windows)

    def predict(self, objects: Sequence[Any]) -> list[Json]:
        """Return the prediction for each object, with probabilities or an uncertainty.

        The ``note`` of an object such as an empty text says that nothing follows from it.

        Raises:
            DataError: An object cannot be used.
        """
        if isinstance(self.estimator, LanguageModel):
            numbers, chances = self.estimator.most_probable(objects)
            words = self.estimator.tokens_
            pairs = zip(numbers.tolist(), chances.tolist(), strict=True)
            return [{"prediction": words[k], "probability": chance} for k, chance in pairs]
        entries = self._predicted(objects)
        for row in self.estimator.without_content(objects):
            entries[row]["note"] = NOTE
        return entries

    def _predicted(self, objects: Sequence[Any]) -> list[Json]:
        tables = self.estimator.predictions(objects)
        if isinstance(target := self.estimator.target_, LabelSets):
            return [{"prediction": there, "probabilities": chances}
                    for there, chances in sets_of(target, tables)]  # fmt: skip
        names = self.classes or [[]] * len(tables)
        columns = [_entries(table, names[k]) for k, table in enumerate(tables)]
        if len(columns) == 1:
            return columns[0]
        keys = self.targets or [str(k) for k in range(1, len(columns) + 1)]
        rows = zip(*columns, strict=True)
        return [{"targets": dict(zip(keys, row, strict=True))} for row in rows]

    def explain(self, objects: Sequence[Any], top: int) -> list[Json]:
        """Return the explanation of each prediction, as in ``explanations.json``.

        Args:
            objects: What is predicted.
            top: Number of the contributions that are listed.

        Raises:
            DataError: An object cannot be used.
            KindError: The model has no exact contributions.
        """
        if isinstance(self.estimator, LanguageModel):
            shown = self.estimator.explain(objects, top)
            return [text.entry("text", row, text.prediction) for row, text in enumerate(shown, 1)]
        predictions, numbers = self.estimator.predictions(objects), range(1, len(objects) + 1)
        noun = self.estimator.noun
        return explanations_of(
            self.estimator, objects, predictions, numbers, noun, top, self.targets
        )

    def stream(self) -> Callable[[Any], Json]:
        """Return a function from the next part of a sequence to an answer, which holds the state.

        The parts of a text are its words, or characters, in order: ``"the dog"``, then ``"barks"``;
        the answer has the most probable next tokens. Those of a signal have one stride of samples
        per channel; the answer has the probability of each class so far. Those of a series are the
        values of one step.

        Raises:
            KindError: The model predicts whole objects.
            ArgumentError: The model of series needs whole ones.
        """
        if isinstance(self.estimator, SeriesHalves):
            return _SeriesStream(self.estimator, self.classes)
        if isinstance(self.estimator, LanguageModel):
            return _TextStream(self.estimator)
        if isinstance(self.estimator, SignalClassifier) and self.estimator.has_network:
            standardization = self.estimator.inputs_.standardization.kind
            if self._is_by_subject or standardization == "window":
                expected = "standardized by the training data, since a stream has no moments yet"
                hint = "Train with --standardize training."
                raise KindError("the model of a stream", "standardized by whole signals", expected,
                                hint=hint)  # fmt: skip
            return _SignalStream(self.estimator, self.classes[0])
        expected = "one of texts to continue, of series, or of signals with a network"
        raise KindError("the model of a stream", f"one of {self.task}", expected)

    @property
    def classes(self) -> list[list[str]]:
        """The names of the classes of each target; none of numbers and of tokens."""
        if isinstance(self.estimator, LanguageModel):
            return []
        target = self.estimator.target_
        is_set = isinstance(target, LabelSets)
        return [[*map(str, target.labels)]] if is_set else classes_of(target)

    def check_size(self, name: str, one: Any) -> None:
        """Check that an object is no larger than the limits allow.

        Raises:
            DataError: It is larger.
        """
        for what, size in self._sizes(one).items():
            if size > (most := getattr(self.limits, f"max_{what}")):
                raise DataError(f"{name} has {size:,} {what}; at most {most:,}")

    def _sizes(self, one: Any) -> dict[str, int]:
        """Return the sizes of an object by what the limits count."""
        if isinstance(one, PlainGraph):
            return {"nodes": one.count, "edges": one.edge_index.shape[1] // 2}
        if not isinstance(one, (str, tuple)):
            return {"samples": int(np.size(one))}
        if self.task != "molecule" or not isinstance(one, str):
            return {"characters": len(one)}
        return {"characters": len(one), "atoms": len(_ATOM.findall(one))}

    def _read(self, value: Any, row: int) -> Any:
        if self.task == "graph":
            try:
                is_tree = isinstance(value, str)
                graph = tree_record(value) if is_tree else parse_graph(value, self._columns)
            except (ArgumentError, DataError) as error:
                raise DataError(f"inputs[{row}]: {error}") from None
            value = PlainGraph(row, graph.count, graph.edge_index, graph.nodes, graph.edges)
        elif isinstance(value, dict) and getattr(self.estimator, "features", ()):
            (value,) = self.estimator.checked_objects([value])
        elif not isinstance(value, str):
            raise DataError(f"inputs[{row}] is of type {type(value).__name__}; expected a string")
        self.check_size(f"inputs[{row}]", value)
        return value


class _TextStream:
    """A text that is read piece by piece."""

    def __init__(self, model: LanguageModel) -> None:
        self._model, self._state, self._next = model, None, None

    def __call__(self, piece: Any) -> Json:
        if not isinstance(piece, str):
            raise DataError(f"the part is of type {type(piece).__name__}; expected a string")
        tokens = self._model.inputs_.encode_prompt(piece)
        tokens = tokens[1:] if self._state is not None else tokens  # its beginning was read
        if not tokens:
            raise ArgumentError("input", piece, "at least one token")
        read = torch.tensor(tokens)
        logs, self._state = self._model.predictor_.read(read, self._state, LAST)
        best = logs[0].topk(min(NEXT, logs.shape[1]))
        words = [self._model.tokens_[k] for k in best.indices.tolist()]
        return {"next": dict(zip(words, best.values.exp().tolist(), strict=True))}


class _SignalStream:
    """A signal that is read stride by stride."""

    def __init__(self, model: SignalClassifier, classes: Sequence[str]) -> None:
        self._inputs, self._classes = model.inputs_, classes
        self._stream = SignalStream(model.network_)

    def __call__(self, samples: Any) -> Json:
        encoded = self._inputs.encode(check_windows([samples], 1))
        chances = self._stream.step(torch.from_numpy(encoded[0]))
        return {"probabilities": dict(zip(self._classes, chances.tolist(), strict=True))}


class _SeriesStream:
    """A series that is read step by step; null is a missing value."""

    def __init__(self, model: SeriesHalves, classes: Sequence[Sequence[str]]) -> None:
        self._stream, self._classes = model.stream(), classes

    def __call__(self, values: Any) -> Json:
        try:
            step = np.array(values, dtype=np.float64)
        except (TypeError, ValueError):
            problem = f"the part is {str(values)[:40]!r}"
            fix = "Give the number of a step, or a list with one for each channel."
            raise DataError(problem, fix=fix) from None
        result = self._stream.step(step)
        if result is None or not self._classes:
            return {"prediction": None if result is None else float(result)}
        return {"probabilities": dict(zip(self._classes[0], result.tolist(), strict=True))}


def _entries(table: Predictions, names: Sequence[str]) -> list[Json]:
    """Return the predictions of one target."""
    entries: list[Json] = []
    for row, value in enumerate(table.values.tolist()):
        if table.probabilities is None:
            entry: Json = {"prediction": value}
            if table.deviations is not None:
                entry["uncertainty"] = float(table.deviations[row])
            if table.half_widths is not None:
                half = float(table.half_widths[row])
                entry |= {"low": value - half, "high": value + half}
        else:
            chances = dict(zip(names, table.probabilities[row].tolist(), strict=True))
            entry = {"prediction": names[value], "probabilities": chances}
            if table.sets is not None:
                entry["prediction_set"] = [
                    names[k] for k in np.flatnonzero(table.sets[row]).tolist()
                ]
        entries.append(entry)
    return entries
