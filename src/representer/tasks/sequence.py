"""Classification and regression of sequences: reader, demo, facts and baselines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.svm import LinearSVC

from representer.data.sequences import read_sequence_file
from representer.errors import DataError
from representer.estimators import SequenceClassifier, SequenceRegressor
from representer.estimators.sequence import read_sequences
from representer.kernels import KmerKernel
from representer.kernels.alphabets import detected, unknown_letter
from representer.options.sequence import TASK, SequenceReading
from representer.storage.run import RunFolder
from representer.tasks.flow import EstimatorTask
from representer.tasks.objects import Data, Objects, naming
from representer.tasks.results import Baseline, Facts, Trained, constant_prediction, ranks

MOTIF = "TGACTCA"
_PENALTIES = np.logspace(-3, 3, 7)


def reads(count: int = 160) -> Objects:
    """Return random DNA of 40 to 60 bases, half of it with a motif."""
    rng, letters, sequences, labels = np.random.default_rng(0), [*"ACGT"], [], []
    for row in range(count):
        sequence = rng.choice(letters, size=int(rng.integers(40, 61)))
        if row % 2:
            start = int(rng.integers(0, len(sequence) - len(MOTIF)))
            sequence[start : start + len(MOTIF)] = [*MOTIF]
        sequences.append("".join(sequence))
        labels.append("bound" if row % 2 else "free")
    source = f"{count} sequences of DNA, half of them with {MOTIF}"
    return Objects(source, source, read_sequences(sequences), labels, range(1, count + 1))


class SequenceTask(EstimatorTask):
    """The task ``sequence``."""

    declared, noun, nouns = TASK, "sequence", "sequences"
    classifier, regressor = SequenceClassifier, SequenceRegressor
    remembered: ClassVar = {option.name: "" for option in fields(SequenceReading)}
    columns = "sequence", "id", "order"
    demo_folder = "sequence-demo"

    def demo(self) -> Objects:
        return reads()

    def read(
        self, path: str | Path, *, is_regression: bool, require_labels: bool, **options: Any
    ) -> Objects:
        """Read sequences as the estimators take them; see `read_sequence_file`."""
        result = read_sequence_file(path, require_labels=require_labels, **options)
        with naming(str(path), result.lines):
            objects = read_sequences(result.sequences)
        return Objects.of_file(path, objects, result, column=result.column)

    def sources(self, config: Any) -> dict[str, Objects]:
        """Read and check the data; a letter that is no code of the alphabet has its line."""
        sources = super().sources(config)
        every = sources["all"].objects
        alphabet = config.alphabet
        if any(isinstance(sequence, np.ndarray) for sequence in every):
            alphabet = "any"
        elif alphabet == "auto":
            alphabet = detected(every)
        for objects in sources.values():
            for line, sequence in zip(objects.lines, objects.objects, strict=True):
                if letter := unknown_letter(alphabet, sequence):
                    problem = f"{letter!r:.60} is no letter of {alphabet}"
                    fix = "Correct it, or pass --alphabet any, for which any token is a letter."
                    raise DataError(problem, file=objects.source, line=line, fix=fix)
        return sources

    def reason(self, estimator: Any, config: Any, value: Any) -> str:
        if not len(value):
            return "empty sequence"
        alphabet = estimator.inputs_.name if config is None else "any"
        letter = unknown_letter(alphabet, value)
        return f"unknown letter {letter!r:.60}" if letter else ""

    def results(
        self, run: RunFolder, trained: Trained, others: Sequence[Trained],
        baselines: Sequence[Baseline],
    ) -> tuple[dict[str, Any], dict[str, Any], Sequence[str]]:  # fmt: skip
        metrics, details, lines = super().results(run, trained, others, baselines)
        return metrics, details | {"motifs": trained.estimator.motifs()}, lines

    def describe(self, config: Any, data: Data) -> Facts:
        sequences = data.parts["train"].objects
        lengths, tokens = (
            [len(sequence) for sequence in sequences],
            {token for sequence in sequences for token in sequence},
        )
        return Facts({
            "length": f"{min(lengths)} to {max(lengths)}, median {int(np.median(lengths))}",
            "different tokens": f"{len(tokens):,}",
        })  # fmt: skip

    def baselines(self, config: Any, data: Data) -> list[Baseline]:
        train, valid, test = (data.parts[name].objects for name in ("train", "valid", "test"))
        values = np.concatenate([data.values[name] for name in ("train", "valid")])
        constant = constant_prediction(values, len(test), is_regression=data.is_regression)
        if values.ndim > 1:
            return []
        rows, learned_from = [], [*train, *valid]
        for order in (3, 6) if config.baselines == "all" else (3,):
            started = time.perf_counter()
            kernel = KmerKernel((order,), order, 1, config.alphabet)
            features = kernel.fit_transform(learned_from)
            model: Any = RidgeCV(_PENALTIES) if data.is_regression else LinearSVC(random_state=0)
            model.fit(features.toarray() if data.is_regression else features, values)
            tested = kernel.transform(test)
            tested = tested.toarray() if data.is_regression else tested
            predicted = model.predict(tested)
            name = f"{'ridge' if data.is_regression else 'SVM'} on {order}-mers"
            about = f"Linear model on the counts of {order} successive letters or tokens."
            seconds, order_of = time.perf_counter() - started, [ranks(model, tested)]
            rows.append(Baseline(name, about, predicted, seconds, order_of))
        return [*rows, constant]


FLOW = SequenceTask()
