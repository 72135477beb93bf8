"""``evaluate``, ``predict`` and ``explain`` for the runs of a task that trains an estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.errors import DataError
from representer.estimators import saving
from representer.estimators.base import Estimator
from representer.estimators.classes import Classes
from representer.estimators.targets import Numbers
from representer.printable import say
from representer.storage.run_files import RunFiles, require_finite
from representer.tasks.estimator_data import Objects, encode_labels
from representer.tasks.estimator_explain import entry_of, write_explanations
from representer.tasks.estimator_results import Predictions, figures_of, shown
from representer.tasks.table_file import as_csv, check_output, write_table


@dataclass(frozen=True)
class EstimatorUse:
    """The functions of a task that use a trained estimator.

    Args:
        noun: One object: "graph".
        reading: Dataclass with the options of reading.
        read: From path, options of reading, ``is_regression`` and ``require_labels`` to objects.
    """

    noun: str
    reading: type[Any]
    read: Callable[..., Objects]

    def evaluate(self, run: str | Path, data: str | Path, options: Any) -> dict[str, Any]:
        """Evaluate a trained model on labeled objects.

        Args:
            run: The run folder.
            data: The objects.
            options: How to read them.

        Raises:
            DataError: They cannot be used, for example for an unknown label.
        """
        estimator, reading = self._load(run, options)
        objects = self._objects(data, reading, isinstance(estimator.target_, Numbers))
        names = names_of(estimator)
        truth = encode_labels(objects, names or None)
        predictions = self._checked(run, estimator, objects)
        figures = figures_of(truth, predictions, names)
        return {"run": str(run), "data": str(data), **figures}

    def predict(
        self, run: str | Path, data: str | Path, output: str | Path | None, options: Any
    ) -> None:
        """Write the number of each object with its prediction.

        Args:
            run: The run folder.
            data: The objects.
            output: CSV file, written atomically; stdout if None.
            options: How to read the objects.

        Raises:
            DataError: The objects or the path of the output cannot be used.
            StorageError: The output cannot be written.
        """
        if output is not None:
            check_output(Path(output), Path(data))
        estimator, reading = self._load(run, options)
        is_regression = isinstance(estimator.target_, Numbers)
        objects = self._objects(data, reading, is_regression, require_labels=False)
        result, names = self._checked(run, estimator, objects), names_of(estimator)
        rows: list[list[str]]
        if result.probabilities is not None:
            header = [self.noun, "prediction", *(f"probability_{name}" for name in names)]
            rows = [
                [names[int(number)], *(f"{chance:.6f}" for chance in chances)]
                for number, chances in zip(result.values, result.probabilities, strict=True)
            ]
        else:
            header = [self.noun, "prediction", "standard_deviation"]
            deviations = np.zeros(0) if result.deviations is None else result.deviations
            pairs = zip(result.values.tolist(), deviations.tolist(), strict=True)
            rows = [[f"{mean:.9g}", f"{deviation:.9g}"] for mean, deviation in pairs]
        body = [[str(number), *row] for number, row in enumerate(rows, 1)]
        write_table(output, as_csv([header, *body]))

    def explain(
        self, run: str | Path, data: str | Path, options: Any, *, limit: int, top: int
    ) -> list[dict[str, Any]]:
        """Explain the predictions for the first objects.

        Writes explanations.json into the run folder and updates its report.

        Args:
            run: The run folder.
            data: The objects.
            options: How to read them.
            limit: Number of objects.
            top: Number of contributions to list for each.

        Raises:
            DataError: The objects cannot be used.
            KindError: The model has no exact contributions, with the reason.
        """
        estimator, reading = self._load(run, options)
        is_regression = isinstance(estimator.target_, Numbers)
        objects = self._objects(data, reading, is_regression, require_labels=False)
        first = objects.subset(range(min(limit, len(objects))))
        predictions, names = self._checked(run, estimator, first), names_of(estimator)
        explanations = estimator.explain(first.objects, top)
        entries = [
            entry_of(self.noun, row + 1, shown(predictions, row, names), explanation)
            for row, explanation in enumerate(explanations)
        ]
        write_explanations(run, entries)
        return entries

    def _objects(
        self,
        path: Any,
        reading: dict[str, Any],
        is_regression: bool,
        *,
        require_labels: bool = True,
    ) -> Objects:
        result = self.read(
            path, **reading, is_regression=is_regression, require_labels=require_labels
        )
        for note in result.notes:
            say(f"{result.source}: {note}")
        return result

    def _load(self, run: str | Path, options: Any) -> tuple[Estimator, dict[str, Any]]:
        """Return the estimator of a run and how to read data: as in training, unless options say.

        Raises:
            DataError: The run is damaged, or its model has several targets.
        """
        estimator: Any = saving.load(run)
        target = estimator.target_
        is_single = isinstance(target, Classes) or (
            isinstance(target, Numbers) and target.width == 1
        )
        if not is_single:
            problem = "holds a model of several targets"
            raise DataError(problem, file=run, fix="Use it in Python.")
        saved = saving.read_description(RunFiles(run)).reading
        usual = asdict(self.reading())
        given = {name: value for name, value in asdict(options).items() if value != usual[name]}
        return estimator, usual | {k: v for k, v in saved.items() if k in usual} | given

    def _checked(self, run: str | Path, estimator: Estimator, objects: Objects) -> Predictions:
        try:
            return self._predictions(run, estimator, objects.objects)
        except DataError as error:
            raise DataError(str(error), file=objects.source) from None

    def _predictions(self, run: str | Path, estimator: Any, objects: Sequence[Any]) -> Predictions:
        if isinstance(estimator.target_, Numbers):
            mean, deviation = estimator.predict(objects, return_std=True)
            mean, deviation = np.ravel(mean), np.ravel(deviation)
            require_finite(run, mean)
            return Predictions(mean, deviations=deviation)
        chances: NDArray[np.float64] = estimator.predict_proba(objects)
        require_finite(run, chances)
        return Predictions(chances.argmax(axis=1), chances)


def names_of(estimator: Any) -> list[str]:
    """Return the names of the classes as text; none for numbers."""
    target = estimator.target_
    return [str(name) for name in target.names] if isinstance(target, Classes) else []
