"""``fit signal`` and the commands that use its runs: subjects are left out in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from representer.data.signals import Recordings, Standardization, cut
from representer.data.splits import Fold
from representer.errors import ArgumentError, DataError, KindError, say
from representer.estimators import SignalClassifier
from representer.estimators.explanation import Example
from representer.estimators.targets import Classes, classes_of
from representer.explain import (
    band_importance,
    combined_lags,
    phase_lags,
    recurring_oscillations,
    wavelet_cards,
)
from representer.machine import limited
from representer.models import SignalStream
from representer.options.signal import DEMO, TASK, SignalConfig, SignalReading
from representer.options.task import defaults
from representer.report.metrics import paired_over_subjects
from representer.report.page import Predictions, figures_of
from representer.report.summary import ACCURACY, chance_sentence, parts_sentence, standing
from representer.storage.run import RunFolder, UnsavedRun, make_folder, require_finite
from representer.tasks.flow import FOLDS, EstimatorComparison, EstimatorTask
from representer.tasks.objects import Data, Objects, Split
from representer.tasks.results import (
    Baseline,
    FoldResult,
    FoldResults,
    Model,
    Trained,
    explained_tests,
    metrics_of,
    named_examples,
    of_path,
    predictions_of_baseline,
)
from representer.tasks.signal.data import (
    DEMO_SOURCE,
    READING,
    SignalForm,
    Windows,
    accuracy_by_subject,
    at_rate,
    final_fold,
    is_listed,
    plan,
    prepare,
    read_given,
    refuse_unused,
    spectral_baselines,
    subjects_of,
    synthetic,
    windows_of,
    windows_to_fit,
)
from representer.training import generators

# Explain the models of a signal run: wavelets, common oscillations, bands and phase lags.


SHOWN = 6  # wavelets to show
WINDOWS = 100  # maximum number of test windows per fold
HIGHEST = 50.0  # Hz


def describe_filters(
    recordings: Recordings, folds: Sequence[FoldResult], trained: Sequence[SignalClassifier],
    final: SignalClassifier,
) -> dict[str, Any]:  # fmt: skip
    """Return the description of the filters for details.json and the report.

    ``cards`` are the strongest wavelets of the final model, and ``recurring`` oscillations those of
    the folds' models, both empty without wavelets; ``importance`` of bands and ``lags`` of each
    class are those of the folds' models, empty if windows are too short.
    """
    described: dict[str, Any] = {"cards": [], "recurring": []}
    if final.filters == "wavelet":
        cards, *every = (wavelet_cards(model.network_.cell) for model in (final, *trained))
        described["cards"] = [
            {k: v.round(6).tolist() if isinstance(v, np.ndarray) else v for k, v in vars(c).items()}
            for c in cards[:SHOWN]
        ]
        described["recurring"] = [vars(row) for row in recurring_oscillations(every)][:SHOWN]
    described["channels"] = list(recordings.channels)
    return described | _oscillations(recordings, folds, trained)


def _oscillations(
    recordings: Recordings, folds: Sequence[FoldResult], trained: Sequence[SignalClassifier]
) -> dict[str, Any]:
    width = max(1.0, 1.0 / recordings.seconds)
    if recordings.sampling_rate < 8 * width or recordings.seconds * recordings.sampling_rate < 8:
        return {"importance": None, "lags": []}
    tested = [_windows(recordings, fold, model) for fold, model in zip(folds, trained, strict=True)]
    highest = min(HIGHEST, recordings.sampling_rate / 2)
    networks, rate = [model.network_ for model in trained], recordings.sampling_rate
    bands = [
        band_importance(network, *windows, rate, width=width, highest=highest)
        for network, windows in zip(networks, tested, strict=True)
    ]
    mean = bands[0]._replace(loss=torch.stack([band.loss for band in bands]).mean(0))
    best = float(mean.frequencies[mean.loss.argmax()])
    wide = min(4 * width, rate / 2 - width)
    lags = []
    for label, name in enumerate(recordings.classes):
        combined = combined_lags(
            [
                phase_lags(network, signals, label, best, rate, width=wide)
                for network, (signals, _) in zip(networks, tested, strict=True)
            ]
        )
        values = {"lags": combined.lags.tolist(), "weights": combined.weights.tolist()}
        lags.append({"class": name} | values)
    return {
        "importance": {
            "frequencies": mean.frequencies.tolist(),
            "loss": mean.loss.tolist(),
            "best": best,
            "center": mean.center,
        },
        "lags": lags,
    }


def _windows(
    recordings: Recordings, fold: FoldResult, one: SignalClassifier
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return up to `WINDOWS` standardized test windows of a fold, evenly spread."""
    count = len(fold.rows)
    places = np.linspace(0, count - 1, min(count, WINDOWS)).round().astype(int)
    tested = recordings.take(fold.rows[np.unique(places)])
    (signals,) = one.inputs_.collate(one.inputs_.encode(tested.signals))
    return signals, torch.from_numpy(tested.labels)


UNSEEN = 2**20  # seed of the recordings to look at in the demo


def metrics_of_folds(task: str, trained: Trained, baselines: Sequence[Baseline]) -> dict[str, Any]:
    """Return metrics.json: metrics over all folds and by subject, for model and baselines."""
    data, training = trained.data, trained.outcome.training
    (column,), recordings = data.columns("test"), recordings_of(data)
    ours = by_subject(data, trained.outcome.predictions[0])
    metrics = metrics_of(task, data, trained.outcome)

    def row(about: Mapping[str, Any], predictions: Predictions) -> dict[str, Any]:
        figures = by_subject(data, predictions)
        difference = paired_over_subjects(ours["by_subject"], figures["by_subject"])
        test = {"test": figures_of(column, predictions, groups=data.groups)}
        names = ("name", "description", "seconds")
        return {name: about[name] for name in names} | test | figures | {"difference": difference}

    rows = [
        row(vars(baseline), *predictions_of_baseline(baseline, [column])) for baseline in baselines
    ]
    halves = zip(metrics["alone"], trained.outcome.alone.values(), strict=True)
    metrics |= {
        **ours,
        "alone": [row(about, *half) for about, half in halves],
        "folds": [
            {
                "name": fold.fold.name,
                "test": list(fold.fold.test),
                "valid": list(fold.fold.valid),
                "windows": len(fold.rows),
                **{k: getattr(fold, k) for k in _OF_FOLD},
            }
            for fold in trained.folds
        ],
        "chance": float(np.bincount(recordings.labels).max() / len(recordings)),
        "epochs": training.epoch if training else 0,
        "stopped_by": training.reason if training else "",
        "final_seconds": sum(p.seconds or 0.0 for p in trained.estimator.parts_.values()),
        "baselines": rows,
    }
    compared = standing_of(metrics["model"], rows, len(ours["by_subject"]))
    verdict = " ".join(filter(None, (compared["verdict"], chance_sentence(metrics["test"]))))
    return metrics | compared | {"verdict": verdict}


def summary(metrics: dict[str, Any]) -> str:
    """Return the closing table for the terminal."""
    rows = [metrics | {"name": metrics["model"]}, *metrics["alone"], *metrics["baselines"]]
    width = max(len(row["name"]) for row in rows)
    lines = [f"{'':<{width}}  subjects  accuracy (mean ± std)        all windows  training"]
    lines += [
        f"{row['name']:<{width}}  {len(row['by_subject']):8}  {100 * row['mean']:5.1f} ± "
        f"{100 * row['deviation']:4.1f} %{'':<10}{100 * row['test']['accuracy']:5.1f} %     "
        f"{row['seconds']:7.1f} s"
        for row in rows
    ]
    return "\n".join(lines)


_OF_FOLD = ("accuracy", "epochs", "best_epoch", "stopped_by", "seconds")


def estimators_of(folder: Path, folds: Sequence[FoldResult]) -> list[SignalClassifier]:
    """Return the trained estimators of the folds of a run."""
    names = (fold.fold.folder_name(number) for number, fold in enumerate(folds))
    return [SignalClassifier.load(folder / FOLDS / name) for name in names]


def recordings_of(data: Data) -> Recordings:
    """Return the recordings of a run."""
    windows: Any = data.sources[0][1]
    return windows.recordings


def by_subject(data: Data, predictions: Predictions) -> dict[str, Any]:
    """Return the accuracy on each test subject, their mean and their standard deviation."""
    recordings, rows = recordings_of(data), np.asarray(data.parts["test"].rows)
    scores = accuracy_by_subject(recordings, rows, predictions.values)
    accuracies = [*scores.values()]
    return {
        "by_subject": scores,
        "mean": float(np.mean(accuracies)),
        "deviation": float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else 0.0,
    }


def standing_of(name: str, baselines: Sequence[dict[str, Any]], subjects: int) -> dict[str, Any]:
    """Return how the model compares with the best baseline over subjects, as in metrics.json."""
    differences = {baseline["name"]: baseline["difference"] for baseline in baselines}
    intervals = {which: (d["mean"], *d["interval"]) for which, d in differences.items()}
    on = f"{subjects} test subject{'s' * (subjects > 1)}"
    compared = standing(name, intervals, ACCURACY, on, subjects)
    if not compared:
        return {"standing": {}, "verdict": ""}
    d = differences[compared["baseline"]]
    counts = (
        f"It is ahead on {d['better']} subjects, behind on {d['worse']}, level on {d['equal']} "
        f"(Wilcoxon's signed-rank test: p = {d['p']:.2g})."
    )
    return {"standing": compared, "verdict": f"{compared['sentence']} {counts}"}


# Commands that use a run.


def final_note(data: Data) -> str:
    """Return on whom the final model is trained, for stderr."""
    train, valid = ([*dict.fromkeys(data.groups_of[name])] for name in ("train", "valid"))
    end = f"early stopping on subjects {', '.join(valid)}" if valid else "no early stopping"
    return f"final model: trained on {len(train)} subjects, {end}"


def _streamed(
    estimator: SignalClassifier, recordings: Recordings
) -> Iterator[tuple[int, float, np.ndarray]]:
    """Read every window stride by stride, and yield the network's prediction for each stride."""
    (signals,) = estimator.inputs_.collate(estimator.inputs_.encode(recordings.signals))
    reader, stride = SignalStream(estimator.network_), estimator.network_.config.stride
    first, times = signals.shape[2] % stride, []
    with limited(1):  # a step is too small for more
        for row, window in enumerate(signals):
            reader.reset()
            for start in range(first, signals.shape[2], stride):
                samples = window[:, start : start + stride]
                before = time.perf_counter()
                chances = reader.step(samples).cpu()
                times.append(time.perf_counter() - before)
                yield row, (start + stride) / recordings.sampling_rate, chances.double().numpy()
    half, most = (1e3 * float(np.percentile(times, q)) for q in (50, 95))
    milliseconds = 1e3 * stride / recordings.sampling_rate
    say(f"{len(times)} steps of {stride} samples, {milliseconds:.3g} ms of the signal "
        f"each: p50 {half:.3f} ms, p95 {most:.3f} ms a step")  # fmt: skip


def _arriving(
    estimator: SignalClassifier, recordings: Recordings
) -> Iterator[tuple[int, float, np.ndarray]]:
    """Yield the prediction for each window beside those of its subject that came before it."""
    for row, subject in enumerate(recordings.subjects):
        before = np.flatnonzero(recordings.subjects[: row + 1] == subject)
        yield row, recordings.seconds, estimator.predict_proba(recordings.signals[before])[-1]


_SET_HERE = ("jobs", "test_subjects")  # by the comparison itself


@dataclass(frozen=True, kw_only=True)
class SignalComparison(EstimatorComparison):
    """Kernel, network, both, variants of the network and the baseline on folds of subjects.

    Split k is the k-th fold of ``fit signal --folds``.
    """

    groups: int = 5

    def __post_init__(self) -> None:
        subjects = len(subjects_of(self.recordings))
        if self.groups > subjects:
            expected = f"2 to {subjects}, the number of subjects"
            raise ArgumentError("splits", self.groups, expected)
        _, data = self.divided(0)
        for options in ({}, *self.variants.values()):  # raises now what would fail later
            self.flow.check_network(replace(self.config, **options), data)

    @classmethod
    def read(
        cls, flow: EstimatorTask, config: Any, *, splits: Sequence[int] | None = None,
        **options: Any,
    ) -> SignalComparison:  # fmt: skip
        """Read the recordings; there are as many folds as splits, by default 5 or the subjects."""
        sources: dict[str, Any] = flow.sources(config)
        if splits is None:
            splits = range(min(len(cls.splits), len(subjects_of(sources["all"].recordings))))
        chosen = {"flow": flow, "config": config, "sources": sources, "splits": splits}
        return cls(**chosen, groups=len(splits), **options)

    @property
    def recordings(self) -> Recordings:
        """The recordings."""
        windows: Any = self.sources["all"]
        return windows.recordings

    @property
    def title(self) -> str:
        source, recordings = self.sources["all"].source, self.recordings
        name = source if self.config.demo else Path(source).name
        windows = f"{len(recordings)} windows of {len(subjects_of(recordings))} subjects"
        return f"{name}: {self.groups} groups of subjects left out in turn, {windows}"

    @property
    def settings(self) -> dict[str, Any]:
        settings = super().settings
        others = {name: value for name, value in settings.items() if name not in _SET_HERE}
        return others | {"groups": self.groups}

    def divided(self, number: int) -> tuple[Any, Data]:
        config = replace(self.config, resume=False)
        fold = plan(self.recordings, replace(config, folds=self.groups))[number]
        return config, self.flow.fold_data(config, self.sources, fold)


class SignalTask(EstimatorTask):
    """The task ``signal``: leave one subject, or a group of subjects, out in turn."""

    declared, noun, nouns = TASK, "window", "windows"
    classifier = SignalClassifier
    remembered: ClassVar = {option.name: "" for option in fields(SignalReading)}
    form = SignalForm
    group = "subject"
    demo_folder = "signal-demo"

    def read(self, path: str | Path, **how: Any) -> Windows:
        """Return the windows of a file; options are those of `SignalReading` and `read_given`."""
        del how["is_regression"]  # windows have classes
        reading = SignalReading(**{name: how.pop(name) for name in READING})
        return windows_of(read_given(path, reading, **how), path)

    def drift(self, first: str, second: str, options: Any, *more: Any, **how: Any) -> Any:
        """Compare the windows of two files, which every given option of reading concerns."""
        for path in (first, second):
            refuse_unused(path, options)
        return super().drift(first, second, options, *more, **how)

    def as_trained(self, estimator: Any, form: SignalForm) -> dict[str, Any]:
        """Return how the recordings of training became windows, for `read_given`."""
        rate = estimator.sampling_rate_
        seconds = form.samples / rate
        return {"sampling_rate": rate, "window_seconds": seconds, "is_whole": form.is_whole}

    def adapted(self, estimator: Any, form: SignalForm, objects: Windows) -> Windows:
        """Return windows with the channels, rate and length of the training.

        Channels are reordered and unknown ones dropped; recordings are resampled and longer windows
        are cut where necessary, with a notice.

        Raises:
            DataError: If a channel is missing, or windows are too short.
        """
        made, path = objects.recordings, objects.source
        if form.channels:
            if unknown := [name for name in made.channels if name not in form.channels]:
                named = ", ".join(unknown)
                say(f"{path}: the channels {named} are unknown to the model and ignored")
            made = made.in_order(form.channels, file=path)
        rate = estimator.sampling_rate_
        uncut = made = at_rate(made, rate, path)
        if form.samples and made.signals.shape[2] != form.samples:
            seconds = form.samples / rate
            made = cut(made, seconds, file=path)
            say(f"{path}: {len(uncut)} windows of {uncut.seconds:g} s are cut into {len(made)} of "
                f"{seconds:g} s, as in training")  # fmt: skip
        if form.is_standardized_by_subject:
            made = Standardization("subject").apply(made)
        return windows_of(made, path)

    def _among(self, estimator: Any, windows: Any) -> AbstractContextManager[Any]:
        """Return a context that knows all windows of the subjects of some."""
        every, subjects = windows.recordings, self.groups(windows)
        rows = np.isin(every.subjects, subjects)
        return estimator.recentered(every.signals[rows], every.subjects[rows])

    def predicted(self, estimator: Any, data: Data) -> Sequence[Predictions]:
        """Return the predictions for the test windows, beside the others of their subjects."""
        with self._among(estimator, data.parts["test"]):
            return super().predicted(estimator, data)

    def _checked(self, run: str | Path, estimator: Any, objects: Any) -> list[Predictions]:
        with self._among(estimator, objects):
            return super()._checked(run, estimator, objects)

    def entries(
        self, run: str | Path, estimator: Any, objects: Any, top: int
    ) -> list[dict[str, Any]]:
        """Return the explanation of each window, beside the others of its subject."""
        with self._among(estimator, objects):
            return super().entries(run, estimator, objects, top)

    def figures(
        self, form: SignalForm, objects: Windows, values: NDArray[Any],
        predictions: Sequence[Predictions],
    ) -> dict[str, Any]:  # fmt: skip
        """Return accuracies by subject, and their mean; say which subjects were trained on."""
        trained = [name for name in subjects_of(objects.recordings) if name in form.subjects]
        if trained:
            say(f"{objects.source}: the model was trained on {', '.join(trained)}; only other "
                "subjects measure generalization")  # fmt: skip
        recordings = replace(objects.recordings, labels=values)  # in the classes of the model
        rows = np.arange(len(values))
        by_subject = accuracy_by_subject(recordings, rows, predictions[0].values)
        mean = float(np.mean([*by_subject.values()]))
        return {"by_subject": by_subject, "mean_of_subjects": mean}

    def groups(self, objects: Windows) -> Sequence[str]:
        return [objects.recordings.subjects[row] for row in objects.rows]

    def demo(self) -> Windows:
        return windows_of(synthetic(0), DEMO_SOURCE)

    def defaults(self, config: Any) -> dict[str, Any]:
        """Return the defaults of all options, where folds are trained one at a time."""
        return defaults(SignalConfig, DEMO if config.demo else {})

    def baselines(self, config: Any, data: Data) -> list[Baseline]:
        return spectral_baselines(recordings_of(data), data.folds, config)

    def describe_model(self, config: Any, data: Data, estimator: Any, network: Any) -> Model:
        return Model(estimator.network_name, notes=[final_note(data)])

    def sources(self, config: Any) -> dict[str, Objects]:
        """Read the recordings of a run."""
        self._estimator(self.classifier, config, standardize="none").check()  # cell, rate and rest
        return {"all": prepare(config)}

    def prepare(self, config: Any) -> Data:
        data = super().prepare(config)
        self.check_network(config, data)
        recordings = recordings_of(data)
        say(f"{len(data.folds)} folds of {len(recordings)} windows, {recordings.seconds:g} s "
            f"each, of {len(subjects_of(recordings))} subjects")  # fmt: skip
        return data

    def divide(
        self,
        config: Any,
        sources: dict[str, Any],
        split_by: Split | None = None,
        *,
        is_silent: bool = False,
    ) -> Data:
        """Return the data of the final model, with the windows that the folds test."""
        recordings = sources["all"].recordings
        fraction, seed, file = config.valid_fraction, config.seed, config.data
        final = final_fold(recordings, fraction, seed, file=file)
        return self._data(config, sources["all"], final, plan(recordings, config), verbose=1)

    def fold_data(self, config: Any, sources: dict[str, Any], fold: Fold) -> Data:
        return self._data(config, sources["all"], fold, [fold], verbose=0)

    def _data(
        self, config: Any, windows: Windows, used: Fold, folds: Sequence[Fold], *, verbose: int
    ) -> Data:
        recordings = windows.recordings
        form = SignalForm(
            recordings.channels, recordings.signals.shape[2], config.standardize == "subject",
            (*used.train, *used.valid), is_listed(config.data),
        )  # fmt: skip
        rows = used.parts(recordings.subjects)
        tested = [subject for fold in folds for subject in fold.test]
        rows["test"] = np.flatnonzero(np.isin(recordings.subjects, tested))
        seed = generators.derive(config.seed, "fold", used.name) % 2**31
        data = Data(
            Classes(recordings.classes),
            {name: windows.subset(chosen.tolist()) for name, chosen in rows.items()},
            {name: recordings.labels[chosen] for name, chosen in rows.items()},
            [("all", replace(windows, reading=asdict(form)))],
            fold=used,
            folds=folds,
            groups=recordings.subjects[rows["test"]].tolist(),
            groups_of={name: recordings.subjects[chosen] for name, chosen in rows.items()},
            resources={
                "sampling_rate": recordings.sampling_rate, "random_state": seed,
                "verbose": verbose,
            },
            seed=seed,
        )  # fmt: skip
        estimator = self.new_estimator(UnsavedRun(), config, data)
        inputs = estimator.learn_inputs(data.parts["train"].objects, seed)
        inputs = replace(inputs, names=recordings.channels)
        encoded = {
            name: inputs.encode(objects.objects) if len(objects) else []
            for name, objects in data.parts.items()
            if used in folds or name != "test"
        }
        return replace(data, inputs=inputs, encoded=encoded)

    def new_estimator(self, run: RunFolder, config: Any, data: Data) -> SignalClassifier:
        if config.standardize == "subject":  # before the estimator takes them
            data = replace(data, resources=data.resources | {"standardize": "none"})
        estimator = super().new_estimator(run, config, data)
        estimator.learn_inputs(data.parts["train"].objects[:1], 0)
        return estimator

    def compared_by(self, first: Any, second: Any) -> SignalClassifier:
        """Return a classifier with the kernel of the windows of two files.

        Raises:
            DataError: The files differ in their channels, sampling rate or window length.
        """
        forms = [
            f"{', '.join(r.channels)}, {r.sampling_rate:g} Hz, {r.signals.shape[2]} samples"
            for r in (first.recordings, second.recordings)
        ]
        if forms[0] != forms[1]:
            problem = f"the windows have {forms[1]}; those of {first.source} have {forms[0]}"
            raise DataError(problem, file=second.source, fix="Convert one of the files.")
        return SignalClassifier(sampling_rate=first.recordings.sampling_rate)

    def results(
        self, run: RunFolder, trained: Trained, others: Sequence[Trained],
        baselines: Sequence[Baseline],
    ) -> tuple[dict[str, Any], dict[str, Any], Sequence[str]]:  # fmt: skip
        metrics = metrics_of_folds(self.name, trained, baselines)
        lines = summary(metrics), parts_sentence(metrics["parts"]), metrics["verdict"]
        return metrics, self.details(run.path, trained), lines

    def details(self, run: Path, trained: Trained) -> dict[str, Any]:
        """Return data, filters, and windows explained by the model of a fold."""
        config, sources, folds = trained.config, dict(trained.data.sources), trained.folds
        windows: Any = sources["all"]
        recordings = windows.recordings
        name = windows.source if config.demo else Path(windows.source).name
        estimators = estimators_of(run, folds)
        chances = folds[0].probabilities
        predictions = [Predictions(chances.argmax(axis=1), chances)]
        data = self.fold_data(config, sources, folds[0].fold)
        explained = explained_tests(self, run, estimators[0], data, predictions, np.inf)
        wrong = [entry["explained"] for entry in explained["mistakes"] if "explained" in entry]
        for entry in (*explained["examples"], *wrong):
            entry["noun"] = f"subject {recordings.subjects[entry['row']]}, window"
        details = {
            "title": f"{name}: {', '.join(recordings.classes)} from the signal",
            "data": windows.about,
            **explained,
        }
        if trained.estimator.has_network:
            details["filters"] = describe_filters(recordings, folds, estimators, trained.estimator)
        return details

    def examples(self, run: str, data: str | None) -> list[Example]:
        """Return windows of a file or, if there is none, of new subjects of the demo.

        The windows of a file may be those of subjects that the model was trained on.

        Raises:
            DataError: They cannot be used.
        """
        if data is None:
            estimator, _, form = self.load(run, self.reading(), "cpu")
            windows: Any = self.adapted(estimator, form, windows_of(synthetic(UNSEEN), DEMO_SOURCE))
        else:
            windows = of_path(self, run, data)
        return named_examples(windows, "window", self.groups(windows))

    def streamed(
        self, run: str | Path, estimator: Any, form: SignalForm, objects: Windows
    ) -> Iterator[Sequence[object]]:
        """Yield the head, and a prediction after each stride of every window.

        It comes with the time in seconds at which the network's prediction is available; the time
        per step is printed on stderr. Without a network, a recentered kernel predicts each window
        beside those of its subject before it.

        Raises:
            KindError: If the model has no network, and no such kernel.
        """
        recordings = objects.recordings
        if not estimator.has_network and estimator.recenter:
            predicted = _arriving(estimator, recordings)
        elif not estimator.has_network:
            expected = "a model with a network, since a kernel compares whole windows"
            raise KindError("the run", "one of a kernel machine alone", expected)
        else:
            predicted = _streamed(estimator, recordings)
        if estimator.has_network and estimator.pool_.kernel:
            say("the network alone predicts the stream; the kernel compares whole windows")
        scheme = "subject" if form.is_standardized_by_subject else estimator.standardize
        if scheme in ("subject", "window"):
            say(f"standardized by the {scheme}, as in training; a live stream needs these "
                "statistics in advance, except with --standardize training")  # fmt: skip
        (names,) = classes_of(estimator.target_)
        yield ["subject", "window", "second", "prediction", *(f"probability_{n}" for n in names)]
        for row, second, chances in predicted:
            require_finite(run, chances)
            best = names[int(chances.argmax())]
            shown = f"{second:.6g}", best, *(f"{chance:.6f}" for chance in chances)
            yield [recordings.subjects[row], row, *shown]

    def comparison(self, config: Any, **options: Any) -> EstimatorComparison:
        return SignalComparison.read(self, config, **options)


FLOW = SignalTask()


def run_loso(
    recordings: Recordings,
    config: Any,
    folder: str | Path,
    *,
    processes: int | None = None,
    report: Callable[[str], None] = say,
) -> FoldResults:
    """Leave every subject, or group of subjects, out in turn.

    Each fold is trained from scratch in ``folder/folds/NAME``. Finished folds are not repeated, and
    interrupted folds continue.

    Args:
        recordings: Resampled and cut recordings, not standardized.
        config: A `SignalConfig`: options of model, training and folds.
        folder: Folder of the run.
        processes: Number of folds at a time; 0 for one per processor, at most 8; by default
            ``jobs`` of the configuration, or else 1.
        report: Called with a line for every finished fold.

    Raises:
        DataError: If the recordings have too few subjects for the folds.
        ArgumentError: If the folder has folds with other settings.
        Interrupted: If a signal arrived; everything is saved.
        TrainingError: If a training diverged, or a process was killed.
    """
    make_folder(Path(folder))
    chosen = replace(config, jobs=config.jobs if processes is None else processes)
    sources: dict[str, Objects] = {"all": windows_to_fit(recordings, config)}
    return FLOW.cross_validate(Path(folder), chosen, sources, plan(recordings, config), report)
