"""``fit`` for a task that trains an estimator on labeled objects.

A task gives a reader, two estimators, baselines, facts and a demo; the rest is here and in `use`.
"""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from representer.checks import is_missing
from representer.data.splits import Fold
from representer.data.tables.columns import remarks
from representer.errors import ArgumentError, DataError, TrainingError, say, show
from representer.estimators import base
from representer.estimators.explanation import BOTH, KERNEL, NETWORK, Example
from representer.estimators.fitting import batch_size_for, validation_fraction
from representer.estimators.results import (
    environment_of,
    model_name,
    parameter_counts,
    sets_as_classes,
)
from representer.estimators.supervised import SupervisedEstimator
from representer.machine import limited
from representer.options.task import (
    as_yaml,
    command_of,
    determining,
    parameters_of,
    refuse_parameters_of_others,
    without_data,
)
from representer.report import write_report
from representer.report.page import Predictions, areas_under_curves, dependent, points
from representer.report.summary import parts_sentence
from representer.storage.run import RunFiles, RunFolder, UnsavedRun, refuse_links
from representer.tasks.comparison import BASELINES, MODEL_UNIT, Comparison, Result, parts_of
from representer.tasks.drift import drift
from representer.tasks.objects import (
    Data,
    Objects,
    Split,
    are_fractions,
    divided,
    equal_objects,
    with_calibration,
)
from representer.tasks.results import (
    Baseline,
    Facts,
    FoldResult,
    FoldResults,
    Model,
    Outcome,
    Trained,
    explained_tests,
    kept_sentence,
    metrics_of,
    predictions_of_baseline,
    summary,
    tested,
    verdicts,
)
from representer.tasks.use import EstimatorUse, as_csv
from representer.tasks.worklist import WorkList
from representer.training.config import EXECUTION, TrainerConfig, plain, require_same

# A run may be resumed with other values of these; the trainer checks its own settings.
WITHOUT_EFFECT_ON_TRAINING = (
    *EXECUTION, "data", "valid", "test", "out", "vectors", "baselines", "preset", "resume", "demo",
    "time_limit", "skip_invalid", "folds", "test_subjects", "jobs",
)  # fmt: skip


def opened(config: Any) -> RunFolder:
    """Return the folder of a run; a demo continues without ``--resume``."""
    is_repeated_demo = config.demo and Path(config.out).exists()
    return RunFolder(config.out, resume=config.resume or is_repeated_demo)


def require_same_options(run: Path, config: Any, splits: Mapping[str, Any]) -> None:
    """Refuse to continue a run with other options or data, whichever of its parts are fitted."""
    files = RunFiles(run)
    if not (files.has("config.yaml") and files.has("splits.json")):
        return  # it was interrupted before anything was trained
    saved = files.yaml("config.yaml")
    before = files.parsed(
        "splits.json", lambda: {*map(str, files.json("splits.json")["sha256"].values())}
    )
    now = determining(config, TrainerConfig(), WITHOUT_EFFECT_ON_TRAINING)
    empty = {f.name for f in fields(config) if None in (f.default, now.get(f.name))}
    settings = {name: saved.get(name) for name in now if name in saved or name in empty}  # no nulls
    require_same(settings, plain(now), run)
    digests = splits["sha256"]
    if {*digests.values()} != before:
        changed = next((name for name, digest in digests.items() if digest not in before), "")
        file = changed if Path(changed).is_file() else config.data  # of running text, a part
        problem = f"is not the data with which the run in {run} was started"
        raise DataError(problem, file=file, fix="Give that data, or choose another --out.")


FEW = 10  # different integers that may be classes
FOLDS = "folds"
MOST_PROCESSES = 8  # by default; each needs about half a gigabyte


def _fold_entry(line: dict[str, Any]) -> tuple[Fold, FoldResult]:
    result = FoldResult.from_dict(line)
    return result.fold, result


class EstimatorTask(EstimatorUse):
    """All commands of a task; a subclass says how it reads its data, and what else differs.

    Attributes:
        nouns: Several objects: "graphs".
        classifier: The class of the classifier.
        regressor: The class of the regressor; None for a task of classes alone, whose options
            have the base `RunConfig`, see `config_of`.
        demo_folder: Name of the demo's run.
    """

    nouns: ClassVar[str]
    classifier: ClassVar[type[Any]]
    regressor: ClassVar[type[SupervisedEstimator] | None] = None
    demo_folder: ClassVar[str] = "demo"

    @abstractmethod
    def demo(self) -> Objects:
        """Return synthetic objects."""

    @abstractmethod
    def baselines(self, config: Any, data: Data) -> list[Baseline]:
        """Train the baselines, and predict the test objects."""

    def defaults(self, config: Any) -> dict[str, Any]:
        """Return the defaults of the options of ``fit``, with those of its preset or demo."""
        return self.declared.defaults(config)

    def numbers(self, objects: Objects) -> bool:
        """Return True for objects whose labels are numbers; else they are classes."""
        return are_fractions(objects.labels)

    def split_by(self, config: Any) -> Split | None:
        """Return how objects are divided into parts; None: at random."""
        return None

    def calibrated_by(self, config: Any, objects: Objects) -> Sequence[Any] | None:
        """Return the group of each object, if splits draw groups as a whole."""
        return None

    def resources(self, config: Any, inputs: Any) -> dict[str, Any]:
        """Read parameters of the estimator from files."""
        return {}

    def describe(self, config: Any, data: Any) -> Facts:
        """Return facts on the objects for the report."""
        return Facts({})

    def describe_model(self, config: Any, data: Data, estimator: Any, network: Any) -> Model:
        """Return the name of the model, and facts on it for the report."""
        return Model(estimator.network_name)

    def title(self, config: Any, data: Data) -> str:
        """Return the title of the report."""
        main = data.sources[0][1]
        target = "regression" if data.is_regression else "classification"
        name = Path(main.source).name if main.files else main.source
        return f"{name}: {target} of {self.nouns}"

    def networks(self, config: Any) -> dict[str, Any]:
        """Return the options of each network to train, by its heading.

        The first is the model, the others are compared with it.
        """
        return {"": config}

    def closing(self, run: RunFolder, trained: Trained) -> str:
        """Return what the terminal shows below the results."""
        return ""

    def examples(self, run: str, data: str | None) -> list[Example]:
        """Return objects to look at: those of a path or, if there is none, of the demo."""
        return tested(self, self.demo, run, data)

    def comparison(self, config: Any, **options: Any) -> EstimatorComparison:
        """Return the comparison of models on splits of the data, see `tasks.comparison`."""
        return EstimatorComparison.read(self, config, **options)

    def fit(self, config: Any) -> dict[str, Any]:
        """Train an estimator, test it, write the run folder, and return metrics.json.

        Nothing is written before the data have been read and checked. A finished demo prints its
        results again, and an interrupted one continues.
        """
        named = Path(config.data or "").name.partition(".")[0] or self.name
        out = config.out or f"runs/{self.demo_folder if config.demo else named}"
        config = replace(config, out=out)
        data = self.prepare(config)
        networks = self.networks(config)
        with ExitStack() as stack:
            runs = [stack.enter_context(opened(network)) for network in networks.values()]
            tested = self.test_folds(runs[0], config, data) if data.folds else None
            trained = []
            for run, (heading, options) in zip(runs, networks.items(), strict=True):
                if heading:
                    print(f"{heading}:")
                how = {"is_silent": bool(trained), "is_tested": tested is None}
                trained.append(self.train(run, options, data, **how))
            if tested is not None:
                trained[0] = tested.of_run(trained[0])
            return self.report(runs[0], trained[0], trained[1:])

    def test_folds(self, run: RunFolder, config: Any, data: Data) -> FoldResults:
        """Test all folds of a run, whose own model is trained on all data."""
        self._begin(run, config, data)
        return self.cross_validate(run.path, config, dict(data.sources), data.folds)

    def cross_validate(
        self,
        folder: Path,
        config: Any,
        sources: dict[str, Objects],
        folds: Sequence[Fold],
        report: Callable[[str], None] = say,
    ) -> FoldResults:
        """Train and test a model on each fold, in ``folder/folds/NAME``.

        Each is trained from scratch; finished folds are not repeated, interrupted ones continue.

        Args:
            folder: Folder of the run, which no other process writes into.
            config: The options; ``jobs`` folds are trained at a time, 0 is one per processor.
            sources: The data.
            folds: The folds.
            report: Called with a line for every finished fold.

        Raises:
            ArgumentError: The folder has folds with other settings.
            Interrupted: A signal arrived; everything is saved.
            TrainingError: A training diverged, or a process was killed.
        """
        free = (*WITHOUT_EFFECT_ON_TRAINING, "threads", "epochs")  # more of them continue a fold
        settings = {"trainer": {"epochs": config.epochs}, "data": sources["all"].digest}
        settings |= {name: value for name, value in config.to_dict().items() if name not in free}
        work: WorkList[Fold, FoldResult] = WorkList(
            folder, ("folds.json", "folds.jsonl"), settings,
            lambda _, result: result.to_dict(), _fold_entry,
        )  # fmt: skip
        for fold, result in [*work.finished.items()]:
            if result.stopped_by == "epochs" and result.epochs < config.epochs:
                del work.finished[fold]
        waiting = {fold: number for number, fold in enumerate(folds) if fold not in work.finished}
        count = len(folds) - len(waiting)
        if count:
            report(f"{count} of {len(folds)} folds are finished already")
        places = {fold: folder / FOLDS / fold.folder_name(k) for fold, k in waiting.items()}
        jobs = 1 if config.jobs is None else config.jobs or min(os.cpu_count() or 1, MOST_PROCESSES)
        results = work.run(
            self.test_fold, waiting, lambda fold: (config, sources, fold, places[fold]), jobs
        )
        for _, result in results:
            if isinstance(result, TrainingError):
                raise result
            count += 1
            report(f"{count}/{len(folds)} {result.line(self.nouns)}")
        return FoldResults.of([work.finished[fold] for fold in folds])

    def fold_data(self, config: Any, sources: dict[str, Objects], fold: Fold) -> Data:
        """Return the data of a fold, of a task whose data have folds."""
        raise NotImplementedError

    def test_fold(
        self, config: Any, sources: dict[str, Objects], fold: Fold, folder: Path
    ) -> FoldResult:
        """Train and test a model on a fold, or continue its training, in a folder."""
        refuse_links(folder)
        is_of_fit = (folder.parent.parent / "config.yaml").exists()  # not of a recipe
        fold_run = RunFolder(folder, resume=folder.exists(), has_resume=is_of_fit)
        with limited(config.threads or None), fold_run as run:
            data = self.fold_data(config, sources, fold)
            return FoldResult.of(self.train(run, config, data, is_silent=True))

    def prepare(self, config: Any) -> Data:
        """Read, check, split and encode the data, without writing anything.

        Raises:
            DataError: The data cannot be used.
            ArgumentError: There are no data, or a parameter is out of its range.
        """
        return self.divide(config, self.sources(config))

    def sources(self, config: Any) -> dict[str, Objects]:
        """Read and check the data, see `prepare`.

        Returns:
            The main objects as ``"all"``, and those of ``"valid"`` and ``"test"``.
        """
        for model in filter(None, (self.classifier, self.regressor)):
            self._estimator(model, config).check()
        groups = getattr(config, "groups", None)
        reading = self._reading(config) | ({"groups": groups} if groups else {})
        is_regression = self.regressor is not None and config.kind == "regression"
        if config.demo:
            main = self.demo()
        elif config.data is None:
            hint = without_data(self.name, config)
            raise ArgumentError("data", None, f"the path of labeled {self.nouns}", hint=hint)
        else:
            how = reading | {"is_regression": is_regression, "require_labels": True}
            main = self.read(config.data, **how)
        model = self.kind(config, {"all": main})
        how = reading | main.reading | {"is_regression": model is self.regressor}
        for column, labels in main.columns if model is self.regressor and not is_regression else ():
            names = {label for label in labels if label and not is_missing(label)}
            if len(names) <= FEW and not are_fractions([*names]):
                values = ", ".join(sorted(names, key=lambda label: (len(label), label)))
                about = f"{column or 'target'} is {values} only, taken as numbers to predict"
                option = "--task" if hasattr(config, "task") else "--kind"
                say(f"{main.source}: {about}; {option} classification predicts classes")
        sources = {"all": main}
        for name in ("valid", "test"):
            if path := getattr(config, name):
                sources[name] = self.read(path, **how, require_labels=True)
        for other in filter(None, (self.classifier, self.regressor)):
            refuse_parameters_of_others(config, model, other)
        estimator = self._estimator(model, config)
        for name, objects in sources.items():
            objects = objects.in_groups() if len(objects.groups) else objects
            objects = objects.with_numbers() if model is self.regressor else objects
            reason = partial(self.reason, estimator, config)
            objects = objects.usable(reason, self.noun, self.remedy)
            if not config.demo:  # whose objects are drawn, not copied
                objects = replace(objects, digests=model.digests(objects.objects))
            sources[name] = objects
            sources[name].say_notes()
            for _, labels in objects.columns if model is not self.regressor else ():
                for note in remarks(labels):
                    say(f"{objects.labels_file}: {note}")
        has_classes = model is not self.regressor
        for note in equal_objects(sources, self.nouns, has_classes=has_classes).values():
            say(f"{main.source}: {note}")
        return sources

    def kind(self, config: Any, sources: dict[str, Objects]) -> type[Any]:
        """Return the class of the estimator: a regressor if labels are numbers."""
        if self.regressor is None or config.kind == "classification":
            return self.classifier
        is_regression = config.kind == "regression" or self.numbers(sources["all"])
        return self.regressor if is_regression else self.classifier

    def divide(
        self, config: Any, sources: dict[str, Objects], split_by: Split | None = None, *,
        is_silent: bool = False,
    ) -> Data:  # fmt: skip
        """Split and encode the data, see `prepare`."""
        is_regression = (model := self.kind(config, sources)) is self.regressor
        estimator = self._estimator(model, config)
        test = 0.0 if "test" in sources else config.test_fraction
        valid = validation_fraction(config.valid_fraction, len(sources["all"]), test)
        shares = {"valid": valid, "test": test}
        split_by = split_by or (None if sources["all"].groups else self.split_by(config))
        how: Any = {"is_regression": is_regression, "split_by": split_by}
        data = divided(sources, shares, config.seed, **how)
        train, test = data.parts["train"], data.parts["test"]
        data = replace(data, groups=test.groups or self.calibrated_by(config, test))
        if config.conformal is not None:
            drawn = train.groups or self.calibrated_by(config, train)
            data = with_calibration(data, config.conformal, config.seed, drawn)
        if sources["all"].groups:
            named = {name: np.asarray(data.parts[name].groups) for name in ("train", "valid")}
            data = replace(data, groups_of=named)
        if is_regression:
            data = replace(data, target=estimator.find_target(data.values["train"]))
        with train.named():
            inputs = estimator.learn_inputs(train.objects, config.seed)
        encoded = {}
        for name, objects in data.parts.items():
            with objects.named():
                encoded[name] = inputs.encode(objects.objects)
        resources = data.resources | self.resources(config, inputs)
        data = replace(data, inputs=inputs, encoded=encoded, resources=resources)
        facts = self.describe(config, data)
        for note in () if is_silent else facts.notes:
            say(note)
        equal = equal_objects(sources, self.nouns, has_classes=not is_regression)
        return replace(data, facts=facts.values | equal)

    def train(
        self,
        run: RunFolder,
        config: Any,
        data: Data,
        *,
        is_silent: bool = False,
        is_tested: bool = True,
    ) -> Trained:
        """Train a model in a folder, or continue its training, and predict the test objects.

        The model of all objects, beside those of the folds, predicts none of them.
        """
        seed = config.seed if data.seed is None else data.seed
        estimator = self.new_estimator(run, config, data)
        network = estimator.new_network(seed) if estimator.has_network else None
        model = self.describe_model(config, data, estimator, network)
        for note in () if is_silent else model.notes:
            say(note)
        if run.resume:
            base.refuse_other_versions(run.path)
        if is_tested:  # else the folds have done it
            self._begin(run, config, data)
        result = estimator.fit_parts(
            run, network,
            {name: data.labeled(name) for name in data.parts if name != "test"},
            seed, groups=data.groups_of, encoded=data.encoded,
            settings=lambda trainer: determining(config, trainer, WITHOUT_EFFECT_ON_TRAINING)
            | {"sha256": {role: objects.digest for role, objects in data.sources}}
            | ({"fold": asdict(data.fold)} if data.fold else {}),
            reading=self._reading(config) | data.sources[0][1].reading,
        )  # fmt: skip
        run.write_text("config.yaml", as_yaml(config))  # a resumed run may have more epochs
        run.write_json("splits.json", data.splits())  # or other folds
        predictions = self.predicted(estimator, data) if is_tested else []
        halves = (KERNEL, NETWORK) if predictions and len(estimator.parts_) > 1 else ()
        if estimator.machine_ is not None:
            described = {**model.values, "kernel": estimator.machine_.description}
            model = replace(model, values=described)
        count = len(data.parts["train"])
        outcome = Outcome(
            name=model_name(estimator.parts_, model.name), predictions=predictions, training=result,
            steps_per_epoch=-(-count // batch_size_for(estimator, count)),
            parameters=parameter_counts(estimator, model.parts), parts=estimator.parts_,
            alone={half: self.predicted(estimator.part(half), data) for half in halves},
        )  # fmt: skip
        return Trained(config, data, estimator, model, outcome)

    def _begin(self, run: RunFolder, config: Any, data: Data) -> None:
        """Write options and data of a new run, or check them against those of one that continues.

        A run that continues gets its files at its end: until then, a kill must leave those whose
        digests are in the manifest.
        """
        if run.resume:
            require_same_options(run.path, config, data.splits())
            if RunFiles(run.path).has("splits.json"):
                return
        run.write_text("config.yaml", as_yaml(config))
        run.write_json("splits.json", data.splits())
        if skipped := data.skipped():
            run.write_text("skipped.csv", as_csv(skipped))

    def new_estimator(self, run: RunFolder, config: Any, data: Data) -> Any:
        """Return an estimator with the target and the inputs of the data, to be trained."""
        model = (data.is_regression and self.regressor) or self.classifier
        estimator = self._estimator(model, config, **data.resources)
        estimator.target_, estimator.inputs_ = data.target, data.inputs
        return estimator

    def predicted(self, estimator: Any, data: Data) -> Sequence[Predictions]:
        """Return the predictions for the test objects, of each target."""
        test = data.parts["test"]
        with test.named():
            return estimator.predictions(test.objects)

    def check_network(self, config: Any, data: Data) -> None:
        """Raise now what a training would raise later, such as an option of another cell."""
        estimator = self.new_estimator(UnsavedRun(), config, data)
        estimator.check()
        if estimator.has_network:
            estimator.new_network(0)

    def report(
        self,
        run: RunFolder,
        trained: Trained,
        others: Sequence[Trained] = (),
        baselines: Sequence[Baseline] | None = None,
    ) -> dict[str, Any]:
        """Compare with other networks and baselines, write the results, print the closing table.

        If several processes trained the model, only the first does this; the others return nothing.

        Baselines are trained here if they are None.
        """
        if not run.is_writer:
            return {}
        config, data = trained.config, trained.data
        if baselines is None:
            baselines = self.baselines(config, data) if config.baselines != "none" else []
        metrics, details, lines = self.results(run, trained, others, baselines)
        details |= {
            "command": command_of(self.name, config, self.defaults(config)),
            "config": config.to_dict(),
            "environment": environment_of(trained.estimator),
        }
        run.write_json("details.json", details)
        run.write_json("metrics.json", metrics)
        page = write_report(run.path)
        for text in filter(None, (*lines, f"report: {page}")):
            show(text)
        return metrics

    def results(
        self, run: RunFolder, trained: Trained, others: Sequence[Trained],
        baselines: Sequence[Baseline],
    ) -> tuple[dict[str, Any], dict[str, Any], Sequence[str]]:  # fmt: skip
        """Return metrics.json, details.json without what repeats the run, and the closing lines."""
        config, data, outcome = trained.config, trained.data, trained.outcome
        metrics = metrics_of(self.name, data, outcome, [o.outcome for o in others], baselines)
        metrics |= verdicts(metrics, self.nouns)
        test, columns = data.parts["test"], data.columns("test")
        details = {
            "title": self.title(config, data),
            "noun": self.noun,
            "nouns": self.nouns,
            "data": data.described(trained.model.facts),
            "model": {"values": dict(trained.model.values)},
            "place": test.place,
            **explained_tests(self, run.path, trained.estimator, data, outcome.predictions),
            "points": points(columns, outcome.predictions),
        }
        about = parts_sentence(metrics["parts"]), kept_sentence(metrics), metrics["verdict"]
        return metrics, details, (summary(metrics), *about, self.closing(run, trained))

    def drift(
        self, first: str, second: str, options: Any, grouping: Any = None, *, permutations: int,
        limit: int, seed: int,
    ) -> dict[str, Any]:  # fmt: skip
        """Compare the objects of two files; see `tasks.drift`."""
        chosen = {"permutations": permutations, "limit": limit, "seed": seed}
        return drift(self, self.compared_by, first, second, options, grouping, **chosen)

    def compared_by(self, first: Any, second: Any) -> Any:
        """Return an estimator with the kernel of the objects of two files."""
        return self.classifier()

    def _estimator(self, kind: type[Any], config: Any, **resources: Any) -> Any:
        return kind(**parameters_of(config, kind) | resources)

    def _reading(self, config: Any) -> dict[str, Any]:
        return {option.name: getattr(config, option.name) for option in fields(self.reading)}


# The comparison of models on repeated splits of the data.


@dataclass(frozen=True, kw_only=True)
class EstimatorComparison(Comparison):
    """Kernel, network, both, variants of the network and baselines on the splits of a task.

    Split k is that of ``fit`` with the k-th seed after that of the options.

    Args:
        flow: The task.
        sources: The objects, from `EstimatorTask.sources`.
        folds: The test fold of each main object, from 0, which is the number of its split; -1
            for none. Without folds, the splits are those of ``fit``.
    """

    flow: EstimatorTask
    sources: dict[str, Objects]
    folds: Sequence[int] = ()

    def __post_init__(self) -> None:
        if len(targets := self.sources["all"].columns) > 1:
            names = ",".join(str(name) for name, _ in targets)
            raise ArgumentError("target", names, "one target to compare models on")
        for options in self.variants.values():
            model = self.flow.kind(self.config, self.sources)
            model(**parameters_of(replace(self.config, **options), model)).check()

    @classmethod
    def read(cls, flow: EstimatorTask, config: Any, **options: Any) -> EstimatorComparison:
        """Read the objects of a task; the other arguments are those of the class."""
        return cls(flow=flow, config=config, sources=flow.sources(config), **options)

    @property
    def title(self) -> str:
        main = self.sources["all"]
        name = Path(main.source).name if main.files else main.source
        if self.has_fixed_test:
            test = f"tested on the {len(self.sources['test'])} {self.flow.nouns} of the test file"
            return f"{name}: {len(self.splits)} seeds, {test}"
        what = "folds" if self.folds else f"splits of {len(main)} {self.flow.nouns}"
        return f"{name}: {len(self.splits)} {what}"

    @property
    def metric(self) -> str:
        """Accuracy, or RMSE for numbers."""
        is_regression = self.flow.kind(self.config, self.sources) is self.flow.regressor
        return "rmse" if is_regression else "accuracy"

    @property
    def has_fixed_test(self) -> bool:
        """True if the test objects come from a file of their own."""
        return "test" in self.sources

    @property
    def settings(self) -> dict[str, Any]:
        digests = {name: source.digest for name, source in self.sources.items()}
        folds = {"sha256": digests, "folds": list(self.folds)}
        return {"task": self.flow.name, **self.options(), **folds}

    def run(self, split: int, unit: str) -> list[Result]:
        config, data = self.divided(split)
        if unit == BASELINES:
            return self._baselines(config, data)
        if unit == MODEL_UNIT:
            return self._train(replace(config, answer=BOTH), data)
        (result,) = self._train(replace(config, answer=NETWORK, **self.variants[unit]), data)
        return [replace(result, name=unit)]

    def divided(self, number: int) -> tuple[Any, Data]:
        """Return the options and the data of a split."""
        config = replace(self.config, seed=self.config.seed + number, resume=False)
        split_by = self.split_by(number)
        return config, self.flow.divide(config, self.sources, split_by, is_silent=True)

    def split_by(self, number: int) -> Split | None:
        """Return how the objects of a split are divided; None if as in ``fit``."""
        return partial(self._positions, number) if self.folds else None

    def _positions(
        self, number: int, objects: Objects, fractions: Sequence[float]
    ) -> Sequence[Sequence[int]]:
        """Return the positions in each part; those of the fold are the test part."""
        folds = np.asarray(self.folds)
        test, rest = (
            np.flatnonzero(which).tolist() for which in (folds == number, folds != number)
        )
        share = validation_fraction(self.config.valid_fraction, len(rest))
        labels = [objects.labels[i] if self.metric == "accuracy" else "" for i in rest]
        seed = self.config.seed + number
        splits = objects.subset(rest).splits(labels)
        train, valid = splits.parts((1 - share, share), seed)
        return [rest[i] for i in train], [rest[i] for i in valid], test

    def _train(self, config: Any, data: Data) -> list[Result]:
        """Train an estimator once, and return the results of each of its parts."""
        started = time.perf_counter()
        quiet = replace(data, resources=data.resources | {"verbose": 0})
        trained = self.flow.train(UnsavedRun(), config, quiet, is_silent=True)
        parts = parts_of(trained.estimator, time.perf_counter() - started)
        return [self.tested(data, name, seconds, half) for name, seconds, half in parts]

    def _baselines(self, config: Any, data: Data) -> list[Result]:
        """Train the baselines, on request also the networks among them."""
        if config.baselines == "none":
            return []
        results = [self.tested_baseline(data, row) for row in self.flow.baselines(config, data)]
        networks = {n: self._train(c, data) for n, c in [*self.flow.networks(config).items()][1:]}
        return results + [replace(r, name=n, is_baseline=True) for n, (r,) in networks.items()]

    def tested(self, data: Data, name: str, seconds: float, part: Any) -> Result:
        """Return the losses of a part of a fitted estimator on the test objects."""
        return self._result(data, name, seconds, self.flow.predicted(part, data))

    def tested_baseline(self, data: Data, baseline: Baseline) -> Result:
        """Return the losses of a baseline on the test objects."""
        predictions = predictions_of_baseline(baseline, data.columns("test"))
        return self._result(data, baseline.name, baseline.seconds, predictions, is_baseline=True)

    def _result(
        self, data: Data, name: str, seconds: float, predictions: Sequence[Predictions],
        *, is_baseline: bool = False,
    ) -> Result:  # fmt: skip
        columns = data.columns("test")
        pair = columns[0], predictions[0]
        column, answers = sets_as_classes(columns, predictions) if len(columns) > 1 else pair
        rows = np.intersect1d(column.known(), data.distinct("test"))  # copies count once
        truth, predicted = column.truth[rows], answers.values[rows]
        losses = predicted != truth if column.classes else (predicted - truth) ** 2
        train = sum(len(data.distinct(name)) for name in ("train", "valid"))
        each, chances = np.asarray(losses, dtype=np.float64).tolist(), answers.probabilities
        auc = None if chances is None else areas_under_curves(truth, chances[rows])["auc"]
        groups = [data.groups[row] for row in rows] if data.groups else []
        groups = None if dependent(groups) is None else groups
        return Result(name, each, seconds, train, is_baseline, auc=auc, groups=groups)
