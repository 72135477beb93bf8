"""Fit, evaluate, predict and explain for a task that trains an estimator on labeled objects.

A task gives a reader, two estimators, baselines and a demo; everything else is here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.errors import ArgumentError, DataError
from representer.estimators import saving
from representer.estimators.base import Estimator
from representer.estimators.classes import Classes
from representer.estimators.fitting import Examples
from representer.estimators.targets import Numbers
from representer.printable import say, show
from representer.report import write_report
from representer.report.page import EXPLAINED
from representer.storage import atomic, checkpoint
from representer.storage.run_files import RunFiles, require_finite
from representer.storage.run_folder import RunFolder
from representer.tasks.baselines import Baseline
from representer.tasks.estimator_data import Data, Objects, are_fractions, divided, encode_labels
from representer.tasks.estimator_explain import entry_of
from representer.tasks.estimator_options import (
    defaults,
    parameters_of,
    refuse_parameters_of_others,
)
from representer.tasks.estimator_results import (
    Predictions,
    compared,
    figures_of,
    mistakes,
    shown,
    summary,
    verdict,
)
from representer.tasks.options import as_yaml, command_of, determining
from representer.tasks.table_file import as_csv, check_output, write_table
from representer.training.fingerprint import fingerprint
from representer.training.trainer_config import TrainerConfig
from representer.training.training_result import TrainingResult

# A run may be resumed with other values of these; the trainer checks its own settings.
_OPTIONS_WITHOUT_EFFECT_ON_TRAINING = (
    "data", "valid", "test", "out", "baselines", "resume", "demo", "device", "time_limit",
)  # fmt: skip


@dataclass(frozen=True)
class EstimatorTask:
    """The functions of a task.

    Args:
        name: As in ``representer fit NAME``.
        noun: One object: "graph".
        nouns: Several of them.
        config: Dataclass with the options of ``fit``.
        reading: Dataclass with the options of reading.
        parameters: Dataclass with the parameters of both estimators.
        classifier: The class of the classifier.
        regressor: The class of the regressor.
        read: From path, options of reading, ``is_regression`` and ``require_labels`` to objects.
        demo: Returns synthetic objects.
        demo_options: Defaults of the demo.
        baselines: From training objects, their values, test objects and ``is_regression``.
        describe: Returns facts on objects for the report.
    """

    name: str
    noun: str
    nouns: str
    config: type[Any]
    reading: type[Any]
    parameters: type[Any]
    classifier: type[Estimator]
    regressor: type[Estimator]
    read: Callable[..., Objects]
    demo: Callable[[], Objects]
    demo_options: dict[str, Any]
    baselines: Callable[..., list[Baseline]]
    describe: Callable[[Sequence[Any]], dict[str, str]]

    def fit(self, config: Any) -> dict[str, Any]:
        """Train an estimator, test it, and write the run folder.

        Nothing is written before the data have been read and checked.

        Args:
            config: The run.

        Returns:
            The metrics, as in metrics.json.

        Raises:
            RepresenterError: See ``errors``; the message names the location and the fix.
        """
        name = "demo" if config.demo else Path(config.data or "").name.partition(".")[0]
        config = replace(config, out=config.out or f"runs/{name or self.name}")
        data = self._prepare(config)
        kind = self.regressor if data.is_regression else self.classifier
        refuse_parameters_of_others(config, kind, self.parameters)
        estimator = kind(**parameters_of(config, kind))
        estimator.check()
        estimator.target_ = data.target
        try:
            estimator.inputs_ = estimator._learn_inputs(data.parts["train"].objects, config.seed)
            encoded = {
                part: estimator.inputs_.encode(own.objects) for part, own in data.parts.items()
            }
        except DataError as error:
            raise DataError(str(error), file=data.parts["train"].source) from None
        is_repeated_demo = config.demo and Path(config.out).exists()
        with RunFolder(config.out, resume=config.resume or is_repeated_demo) as run:
            network = estimator.new_network(config.seed)
            if not checkpoint.steps(run.checkpoints):  # otherwise they exist and must not change
                run.write_text("config.yaml", as_yaml(config))
                run.write_json("splits.json", data.splits())
            result = estimator.train_on(
                run, network, *(self._examples(data, encoded, part) for part in ("train", "valid")),
                config.seed, settings=lambda trainer: self._settings(config, data, trainer),
                reading=self._reading(config),
            )  # fmt: skip
            run.write_text("config.yaml", as_yaml(config))  # a resumed run may have more epochs
            predictions = self._predictions(config.out, estimator, data.parts["test"].objects)
            return self._report(run, config, data, estimator, predictions, result)

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
            pairs = zip(result.values.tolist(), np.ravel(result.deviations).tolist(), strict=True)
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
        folder = Path(run)
        atomic.write_json(folder / EXPLAINED, entries)
        if all((folder / name).is_file() for name in ("metrics.json", "details.json")):
            say(f"report: {write_report(folder)}")
        return entries

    def _prepare(self, config: Any) -> Data:
        reading = self._reading(config)
        if config.demo:
            main = self.demo()
        elif config.data is None:
            hint = f"Without data of your own: representer fit {self.name} --demo"
            raise ArgumentError("data", None, f"the path of labeled {self.nouns}", hint=hint)
        else:
            main = self._objects(config.data, reading, config.kind == "regression")
        is_regression = config.kind == "regression"
        if config.kind == "auto":
            is_regression = are_fractions(main.labels)
        sources = {"all": main}
        for name in ("valid", "test"):
            if path := getattr(config, name):
                sources[name] = self._objects(path, reading, is_regression)
        fractions = {"valid": config.valid_fraction, "test": config.test_fraction}
        return divided(sources, fractions, config.seed, is_regression=is_regression)

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

    def _reading(self, config: Any) -> dict[str, Any]:
        return {one.name: getattr(config, one.name) for one in fields(self.reading)}

    def _examples(self, data: Data, encoded: dict[str, Any], part: str) -> Examples:
        values = data.values[part]
        return Examples(encoded[part], values[:, None] if data.is_regression else values)

    def _settings(self, config: Any, data: Data, trainer: TrainerConfig) -> dict[str, Any]:
        chosen = determining(config, trainer, _OPTIONS_WITHOUT_EFFECT_ON_TRAINING)
        return {**chosen, "sha256": data.splits()["sha256"]}

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

    def _report(
        self, run: RunFolder, config: Any, data: Data, estimator: Any,
        predictions: Predictions, result: TrainingResult,
    ) -> dict[str, Any]:  # fmt: skip
        """Compare with the baselines, write the results, print the closing table."""
        if not run.is_writer:
            return {}
        train, test = data.parts["train"], data.parts["test"]
        baselines = []
        if config.baselines:
            args = train.objects, data.values["train"], test.objects
            baselines = self.baselines(*args, is_regression=data.is_regression)
        names, truth = names_of(estimator), data.values["test"]
        parameters = sum(p.numel() for p in estimator.network_.parameters())
        metrics = {
            "task": self.name,
            "kind": "regression" if data.is_regression else "classification",
            "model": type(estimator).__name__,
            "test": figures_of(truth, predictions, names),
            "valid": result.best,
            "epochs": result.epoch,
            "steps": result.step,
            "stopped_by": result.reason,
            "seconds": result.seconds,
            "parameters": parameters,
            "baselines": [compared(truth, predictions, one, names) for one in baselines],
        }
        usual = defaults(self.config, self.demo_options if config.demo else {})
        source = Path(train.source).name if train.files else train.source
        details = {
            "title": f"{source}: {metrics['kind']} of {self.nouns}",
            "nouns": self.nouns,
            "command": command_of(self.name, config, usual),
            "config": config.to_dict(),
            "data": data.described() | {"facts": self.describe(train.objects)},
            "mistakes": mistakes(data, predictions, names),
            "verdict": verdict(metrics, self.nouns),
            "environment": fingerprint(next(estimator.network_.parameters()).device),
        }
        run.write_json("details.json", details)
        run.write_json("metrics.json", metrics)
        page = write_report(run.path)
        for text in (summary(metrics), details["verdict"], f"report: {page}"):
            if text:
                show(text)
        return metrics


def names_of(estimator: Any) -> list[str]:
    """Return the names of the classes as text; none for numbers."""
    target = estimator.target_
    return [str(name) for name in target.names] if isinstance(target, Classes) else []
