"""``fit`` for a task that trains an estimator on labeled objects.

A task gives a reader, two estimators, baselines, facts and a demo; everything else is here and in
`estimator_use`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from representer.estimators.fitting import batch_size_for
from representer.estimators.joint_fitting import fit_parts
from representer.estimators.results import model_name, parameter_counts, predictions_of
from representer.printable import say
from representer.report.results import mistakes, points
from representer.report.standing import parts_sentence
from representer.storage import checkpoint
from representer.storage.run_folder import RunFolder
from representer.tasks.baselines import Baseline
from representer.tasks.closing import summary, verdicts
from representer.tasks.estimator_data import Data
from representer.tasks.estimator_hooks import (
    Model,
    Trained,
    alone,
    by_class,
    silent,
)
from representer.tasks.estimator_options import parameters_of
from representer.tasks.estimator_preparation import EstimatorPreparation
from representer.tasks.estimator_results import Outcome, metrics_of
from representer.tasks.estimator_resume import WITHOUT_EFFECT_ON_TRAINING, require_same_options
from representer.tasks.options import as_yaml, determining
from representer.tasks.run_flow import named, opened, publish, repeated
from representer.tasks.table_file import as_csv


@dataclass(frozen=True, kw_only=True)
class EstimatorTask(EstimatorPreparation):
    """All functions of a task; the other arguments are those of `EstimatorPreparation`.

    Args:
        defaults: From the options of ``fit`` to the defaults of its preset or demo.
        baselines: From the options of ``fit`` and the data.
        describe_model: From the options of ``fit``, the data, the estimator and its new network.
        title: Of the report, from the options of ``fit`` and the data; None for a general one.
        networks: From the options of ``fit`` to those of each network to train, by its heading;
            the first is the model, the others are compared with it.
        closing: Returns what the terminal shows below the results.
    """

    defaults: Callable[[Any], dict[str, Any]]
    baselines: Callable[[Any, Data], list[Baseline]]
    describe_model: Callable[[Any, Data, Any, Any], Model] = by_class
    title: Callable[[Any, Data], str] | None = None
    networks: Callable[[Any], dict[str, Any]] = alone
    closing: Callable[[Any, RunFolder, Trained], str] = silent

    def fit(self, config: Any) -> dict[str, Any]:
        """Train an estimator, test it, and write the run folder.

        Nothing is written before the data have been read and checked. A finished demo prints its
        results again, and an interrupted one continues.

        Args:
            config: The run.

        Returns:
            The metrics, as in metrics.json.

        Raises:
            RepresenterError: See ``errors``; the message names the location and the fix.
        """
        config = named(config, "demo", self.name)
        data = self.prepare(config)
        networks = self.networks(config)
        with ExitStack() as stack:
            runs = [stack.enter_context(opened(one)) for one in networks.values()]
            trained = []
            for run, (heading, own) in zip(runs, networks.items(), strict=True):
                if heading:
                    print(f"{heading}:")
                trained.append(self.train(run, own, data, is_silent=bool(trained)))
            return self.report(runs[0], trained[0], trained[1:])

    def train(self, run: RunFolder, config: Any, data: Data, *, is_silent: bool = False) -> Trained:
        """Train a model in a folder, or continue its training, and predict the test objects.

        Args:
            run: The folder.
            config: Its options.
            data: The data.
            is_silent: Leave out the notes on the model.
        """
        kind: Any = self.regressor if data.is_regression else self.classifier
        estimator = kind(**(parameters_of(config, kind) | data.resources))
        estimator.target_, estimator.inputs_ = data.target, data.inputs
        network = estimator.new_network(config.seed) if estimator.has_network else None
        model = self.describe_model(config, data, estimator, network)
        for note in () if is_silent else model.notes:
            say(note)
        if run.resume:
            require_same_options(run.path, config, data.splits())
        if network is None or not checkpoint.steps(run.checkpoints):  # else they must not change
            run.write_text("config.yaml", as_yaml(config))
            run.write_json("splits.json", data.splits())
            if skipped := data.skipped():
                run.write_text("skipped.csv", as_csv(skipped))
        result = fit_parts(
            estimator, run, network,
            {
                part: (own.objects, self._values(data, part))
                for part, own in data.parts.items() if part != "test"
            },
            config.seed, encoded=data.encoded,
            settings=lambda trainer: self._settings(config, data, trainer),
            reading=self._reading(config) | data.sources[0][1].reading,
        )  # fmt: skip
        run.write_text("config.yaml", as_yaml(config))  # a resumed run may have more epochs
        predictions = predictions_of(estimator, data.parts["test"].objects)
        if estimator.machine_ is not None:
            described = {**model.values, "kernel": estimator.machine_.description}
            model = replace(model, values=described)
        count = len(data.parts["train"])
        outcome = Outcome(
            name=model_name(estimator.parts_, model.name),
            predictions=predictions,
            training=result,
            steps_per_epoch=-(-count // batch_size_for(estimator, count)),
            parameters=parameter_counts(estimator, model.parts),
            parts=estimator.parts_,
        )
        return Trained(config, data, estimator, model, outcome)

    def report(
        self,
        run: RunFolder,
        trained: Trained,
        others: Sequence[Trained] = (),
        baselines: Sequence[Baseline] | None = None,
    ) -> dict[str, Any]:
        """Compare with other networks and baselines, write the results, print the closing table.

        If several processes trained the model, only the first does this; the others return nothing.

        Args:
            run: The folder.
            trained: The model.
            others: Other networks, trained on the same data.
            baselines: Baselines trained on this split; trained here if None.
        """
        if not run.is_writer:
            return {}
        config, data, outcome = trained.config, trained.data, trained.outcome
        if baselines is None:
            baselines = self.baselines(config, data) if config.baselines != "none" else []
        outcomes = [other.outcome for other in others]
        metrics = metrics_of(self.name, data, outcome, outcomes, baselines)
        metrics |= verdicts(metrics, self.nouns)
        test, columns = data.parts["test"], data.columns("test")
        details = {
            "title": self.title(config, data) if self.title else self._title(data),
            "noun": self.noun,
            "nouns": self.nouns,
            "data": data.described(trained.model.facts),
            "model": {"values": dict(trained.model.values)},
            "place": test.place,
            "mistakes": mistakes(
                columns[0], outcome.predictions[0], test.objects, test.columns[0][1], test.numbers
            ),
            "points": points(columns, outcome.predictions),
            **repeated(self.name, config, self.defaults(config), trained.estimator),
        }
        about = parts_sentence(metrics["parts"])
        closing = self.closing(self, run, trained)
        lines = summary(metrics), about, metrics["verdict"], closing
        return publish(run, metrics, details, lines)

    def _values(self, data: Data, part: str) -> Any:
        values = data.values[part]
        return values.reshape(len(values), -1) if data.is_regression else values

    def _settings(self, config: Any, data: Data, trainer: Any) -> dict[str, Any]:
        chosen = determining(config, trainer, WITHOUT_EFFECT_ON_TRAINING)
        return {**chosen, "sha256": {role: one.digest for role, one in data.sources}}

    def _title(self, data: Data) -> str:
        main = data.sources[0][1]
        kind = "regression" if data.is_regression else "classification"
        return f"{Path(main.source).name if main.files else main.source}: {kind} of {self.nouns}"
