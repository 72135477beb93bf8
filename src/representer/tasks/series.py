"""Classification and regression of series: reader, demo, facts and baselines."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import RidgeClassifierCV, RidgeCV

from representer.data.series import read_series_file
from representer.errors import say
from representer.estimators import SeriesClassifier, SeriesRegressor
from representer.estimators.series import SeriesInputs, read_series
from representer.estimators.targets import classes_of
from representer.options.series import TASK, SeriesReading
from representer.tasks.flow import EstimatorTask
from representer.tasks.objects import Data, Objects, naming
from representer.tasks.results import Baseline, Facts, constant_prediction, ranks

MOST = 2**27  # squares of the nearest series: training times test series times steps
STEPS = 100  # of the resampled series of the baselines, at most
BAND = 0.1  # of the steps by which a warped step may move
_TOGETHER = 2**12  # pairs of series whose distances are computed together
_PENALTIES = np.logspace(-3, 5, 9)


def waves(count: int = 120) -> Objects:
    """Return noisy waves of 60 to 100 steps, half of them with a short bump somewhere."""
    rng, series, labels = np.random.default_rng(0), [], []
    for row in range(count):
        steps = int(rng.integers(60, 101))
        wave = np.sin(np.arange(steps) / 8 + rng.uniform(0, 6)) + 0.3 * rng.normal(size=steps)
        if row % 2:
            start = int(rng.integers(5, steps - 15))
            wave[start : start + 10] += 2 * np.hanning(10)
        series.append(wave[None])
        labels.append("bump" if row % 2 else "none")
    source = f"{count} waves, half of them with a bump"
    return Objects(source, source, series, labels, range(1, count + 1))


def resampled(series: Sequence[NDArray[np.float32]], steps: int) -> NDArray[np.float64]:
    """Return series at a number of steps ``(N, C, steps)``, by interpolation."""
    places = np.linspace(0, 1, steps)
    return np.array([
        [np.interp(places, np.linspace(0, 1, each.shape[1]), channel) for channel in each]
        for each in series
    ])  # fmt: skip


def _ridge(
    train: NDArray[np.float64], values: NDArray[Any], test: NDArray[np.float64],
    *, is_regression: bool,
) -> Baseline:  # fmt: skip
    started = time.perf_counter()
    model: Any = (RidgeCV if is_regression else RidgeClassifierCV)(_PENALTIES)
    model.fit(train.reshape(len(train), -1), values)
    tested = test.reshape(len(test), -1)
    return Baseline(
        "ridge on the values",
        f"Ridge on the values at {train.shape[2]} steps (alpha = {model.alpha_:g}, by "
        "cross-validation).",
        model.predict(tested),
        time.perf_counter() - started,
        [ranks(model, tested)],
    )


def _nearest(
    train: NDArray[np.float64], values: NDArray[Any], test: NDArray[np.float64], band: int
) -> Baseline:
    started = time.perf_counter()
    rows = max(1, _TOGETHER // len(train))
    blocks = [test[start : start + rows] for start in range(0, len(test), rows)]
    nearest = np.concatenate([_distances(some, train, band).argmin(1) for some in blocks])
    name = "dynamic time warping" if band else "Euclidean distance"
    about = f", each of which may move by {band}" if band else ""
    return Baseline(
        f"nearest series, {name}",
        f"The label of the nearest training series at {train.shape[2]} steps{about}.",
        values[nearest],
        time.perf_counter() - started,
    )


def _distances(
    some: NDArray[np.float64], others: NDArray[np.float64], band: int
) -> NDArray[np.float64]:
    """Return the squared distances of series from others, warped within a band ``(M, N)``."""
    some = some[:, None]
    if not band:
        return ((others - some) ** 2).sum((2, 3))
    steps = some.shape[-1]
    before = np.full((steps + 1, len(some), len(others)), np.inf)
    before[0] = 0
    for i in range(steps):
        row = np.full_like(before, np.inf)
        for j in range(max(0, i - band), min(steps, i + band + 1)):
            cost = ((others[..., j] - some[..., i]) ** 2).sum(2)
            row[j + 1] = cost + np.minimum(np.minimum(before[j], before[j + 1]), row[j])
        before = row
    return before[-1]


@dataclass(frozen=True)
class SeriesForm:
    """The form of the series of a model; Python saves none of it."""

    channels: tuple[str, ...] = ()  # names, in order; none for any


class SeriesTask(EstimatorTask):
    """The task ``series``."""

    declared, noun, nouns = TASK, "series", "series"
    classifier, regressor = SeriesClassifier, SeriesRegressor
    remembered: ClassVar = {option.name: "" for option in fields(SeriesReading)}
    columns = "label", "series", "time"
    form = SeriesForm
    demo_folder = "series-demo"

    def demo(self) -> Objects:
        return waves()

    def read(
        self, path: str | Path, *, is_regression: bool, require_labels: bool, **options: Any
    ) -> Objects:
        """Read series as the estimators take them; see `read_series_file`."""
        result = read_series_file(path, require_labels=require_labels, **options)
        has_lines = Path(path).suffix != ".npz"
        with naming(str(path), result.lines, "" if has_lines else "row"):
            series = read_series(result.series)
        reading = {"channels": [*result.channels]} if result.channels else {}
        return Objects.of_file(path, series, result, has_lines=has_lines, reading=reading)

    def as_trained(self, estimator: Any, form: SeriesForm) -> dict[str, Any]:
        """Return the channels of training, for `read_series_file`."""
        return {"channels": form.channels}

    def new_estimator(self, run: Any, config: Any, data: Data) -> Any:
        estimator = super().new_estimator(run, config, data)
        names = data.sources[0][1].reading.get("channels", ())
        estimator.inputs_ = replace(estimator.inputs_, names=tuple(names))
        return estimator

    def streamed(
        self, run: str | Path, estimator: Any, form: Any, objects: Any
    ) -> Iterator[Sequence[object]]:
        """Yield the head, and a prediction after each step of every series."""
        (names,), reader = classes_of(estimator.target_) or [[]], estimator.stream()
        yield ["series", "step", "prediction", *(f"probability_{name}" for name in names)]
        for number, whole in zip(objects.names or objects.numbers, objects.objects, strict=True):
            reader.reset()
            for step, values in enumerate(whole.T):
                result = reader.step(values)
                if result is not None and names:
                    best = names[int(result.argmax())]
                    yield [number, step, best, *(f"{chance:.6f}" for chance in result)]
                elif result is not None:  # else nothing but missing values so far
                    yield [number, step, f"{result:.6g}"]

    def describe(self, config: Any, data: Data) -> Facts:
        series = data.parts["train"].objects
        steps = [each.shape[1] for each in series]
        missing = float(np.mean([np.isnan(each).mean() for each in series]))
        values = {
            "channels": str(len(series[0])),
            "steps": f"{min(steps)} to {max(steps)}, median {int(np.median(steps))}",
        }
        gaps = {"missing values": f"{missing:.1%}, interpolated"} if missing else {}
        return Facts(values | gaps)

    def baselines(self, config: Any, data: Data) -> list[Baseline]:
        parts = [data.parts[name].objects for name in ("train", "valid", "test")]
        values = np.concatenate([data.values[name] for name in ("train", "valid")])
        is_regression = data.is_regression
        constant = constant_prediction(values, len(parts[2]), is_regression=is_regression)
        if values.ndim > 1:
            return []
        inputs = SeriesInputs.learn(config.standardize, parts[0])
        encoded = inputs.encode([*parts[0], *parts[1]])
        steps = min(STEPS, int(np.median([each.shape[1] for each in encoded])))
        train, test = resampled(encoded, steps), resampled(inputs.encode(parts[2]), steps)
        rows = [_ridge(train, values, test, is_regression=is_regression)]
        if train.size * len(test) <= MOST:
            rows.append(_nearest(train, values, test, 0))
            if config.baselines == "all":
                rows.append(_nearest(train, values, test, max(1, round(BAND * train.shape[2]))))
        else:
            count = f"{len(train)} training and {len(test)} test series"
            say(f"the nearest series is left out: {count}")
        return [*rows, constant]


FLOW = SeriesTask()
