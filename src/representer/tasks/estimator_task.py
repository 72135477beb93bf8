"""``fit`` for a task that trains an estimator on labeled objects.

A task gives a reader, two estimators, baselines and a demo; everything else is here and in
`estimator_use`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from representer.errors import ArgumentError, DataError
from representer.estimators.base import Estimator
from representer.estimators.fitting import Examples
from representer.printable import show
from representer.report import write_report
from representer.storage import checkpoint
from representer.storage.run_folder import RunFolder
from representer.tasks.baselines import Baseline
from representer.tasks.estimator_data import Data, Objects, are_fractions, divided
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
    summary,
    verdict,
)
from representer.tasks.estimator_use import EstimatorUse, names_of
from representer.tasks.options import as_yaml, command_of, determining
from representer.training.fingerprint import fingerprint
from representer.training.trainer_config import TrainerConfig
from representer.training.training_result import TrainingResult

# A run may be resumed with other values of these; the trainer checks its own settings.
_OPTIONS_WITHOUT_EFFECT_ON_TRAINING = (
    "data", "valid", "test", "out", "baselines", "resume", "demo", "device", "time_limit",
)  # fmt: skip


@dataclass(frozen=True)
class EstimatorTask(EstimatorUse):
    """All functions of a task; the other arguments are those of `EstimatorUse`.

    Args:
        name: As in ``representer fit NAME``.
        nouns: Several of them.
        config: Dataclass with the options of ``fit``.
        parameters: Dataclass with the parameters of both estimators.
        classifier: The class of the classifier.
        regressor: The class of the regressor.
        demo: Returns synthetic objects.
        demo_options: Defaults of the demo.
        baselines: From training objects, their values, test objects and ``is_regression``.
        describe: Returns facts on objects for the report.
    """

    name: str
    nouns: str
    config: type[Any]
    parameters: type[Any]
    classifier: type[Estimator]
    regressor: type[Estimator]
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
            train, valid = (self._examples(data, encoded, part) for part in ("train", "valid"))
            result = estimator.train_on(
                run, network, train, valid, config.seed,
                settings=lambda trainer: self._settings(config, data, trainer),
                reading=self._reading(config),
            )  # fmt: skip
            run.write_text("config.yaml", as_yaml(config))  # a resumed run may have more epochs
            predictions = self._predictions(config.out, estimator, data.parts["test"].objects)
            return self._report(run, config, data, estimator, predictions, result)

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

    def _reading(self, config: Any) -> dict[str, Any]:
        return {one.name: getattr(config, one.name) for one in fields(self.reading)}

    def _examples(self, data: Data, encoded: dict[str, Any], part: str) -> Examples:
        values = data.values[part]
        return Examples(encoded[part], values[:, None] if data.is_regression else values)

    def _settings(self, config: Any, data: Data, trainer: TrainerConfig) -> dict[str, Any]:
        chosen = determining(config, trainer, _OPTIONS_WITHOUT_EFFECT_ON_TRAINING)
        return {**chosen, "sha256": data.splits()["sha256"]}

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
