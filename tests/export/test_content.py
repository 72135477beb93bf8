"""Programs of exported runs predict with all parts of a run."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from both_halves import with_both
from representer.errors import KindError
from representer.estimators import (
    GraphRegressor,
    MoleculeClassifier,
    MoleculeRegressor,
    SequenceClassifier,
    SequenceRegressor,
    SeriesClassifier,
    SeriesRegressor,
    SignalClassifier,
    TextClassifier,
    TextRegressor,
)
from representer.estimators.linear_models import CentroidCoefficients
from representer.export import content, export_run
from representer.export.content import content_of, is_plain_string
from representer.export.programs import TOLERANCE
from representer.kernels import Gaussian, StringKernel

from .conftest import Exported

QUICK: dict[str, Any] = {"epochs": 1, "random_state": 0, "verbose": 0}
RNG = np.random.default_rng(0)
TEXTS = ["a good film", "a bad film", "very good", "very bad indeed, isn't it?"] * 10
SMILES = ["CCO", "CCC", "c1ccccc1", "CC(=O)O", "CCN", "CCCl", "CO", "C[C@H](N)O", "C/C=C/C", "CN"]
SERIES = [RNG.normal(size=(2, 40 + k)) for k in range(20)]
TIMED = [one + 9 * (np.arange(one.shape[1]) == 5 + 20 * (k % 2)) for k, one in enumerate(SERIES)]
WINDOWS = RNG.normal(3, 2, size=(40, 3, 200)).astype(np.float32)
STRINGS = ["abab", "abba", "aabb", "cdcd", "cddc", "ccdd"] * 4
KERNEL = StringKernel(1) + 0.5 * StringKernel(2, decay=0.8, trailing=False) ** 2 * StringKernel(
    1, normalized=True
)
KERNEL_ONLY = QUICK | {"answer": "kernel"}


def labels(objects: Any) -> list[str]:
    return [("-", "+")[k % 2] for k in range(len(objects))]


def numbers(objects: Any) -> list[float]:
    return [float(k % 7) for k in range(len(objects))]


def timed() -> Any:
    model = SeriesClassifier(num_features=1000, **KERNEL_ONLY).fit(TIMED, labels(TIMED))
    assert model.machine_.kernel.views[-1] == "values"
    return model


def series(**options: Any) -> Any:
    options = {"num_features": 1000} | options
    return SeriesClassifier(**options).fit(SERIES, labels(SERIES))


def signals(**options: Any) -> Any:
    model = SignalClassifier(sampling_rate=100, **options, **QUICK)
    return model.fit(WINDOWS, labels(WINDOWS), groups=np.arange(40) // 10)


DNA = [one.translate(str.maketrans("abcd", "acgt")) + "TTGACT" for one in STRINGS]


NAMES = ["".join(row) for row in RNG.choice([*"bcdfghjklmnpqrstvwz"], (40, 6))]


def by_centroids() -> Any:
    texts = [f"the {name} {word}" for name in NAMES for word in ("and", "or")]
    model = TextClassifier(**KERNEL_ONLY).fit(texts, np.repeat(NAMES, 2))
    assert isinstance(model.machine_.coefficients, CentroidCoefficients)
    return model


CASES: dict[str, tuple[Callable[[], Any], Any]] = {
    "texts, centroids of classes": (
        by_centroids, [*(f"{name} or the" for name in NAMES[:9]), "the", NAMES[0]],
    ),
    "texts, kernel": (lambda: TextClassifier(**KERNEL_ONLY).fit(TEXTS, labels(TEXTS)), TEXTS),
    "numbers of texts": (lambda: TextRegressor(**KERNEL_ONLY).fit(TEXTS, numbers(TEXTS)), TEXTS),
    "series, kernel": (lambda: series(**KERNEL_ONLY), SERIES),
    "series, kernel of the values": (timed, TIMED),
    "numbers of series": (
        lambda: SeriesRegressor(num_features=500, **KERNEL_ONLY).fit(SERIES, numbers(SERIES)),
        SERIES,
    ),
    "sequences, kernel": (
        lambda: SequenceClassifier(**KERNEL_ONLY).fit(STRINGS, labels(STRINGS)),
        [*STRINGS, "", "a", "xyz"],
    ),
    "k-mers of DNA": (
        lambda: SequenceClassifier(strands="both", span=8, **KERNEL_ONLY).fit(
            DNA, labels(DNA)
        ),
        [*DNA, "NNacg-gRtta", "", "A"],
    ),
    "k-mers of DNA by position": (
        lambda: SequenceRegressor(
            orders=(2, 3), span=4, pooling="max", position=3.0, **KERNEL_ONLY
        ).fit(DNA, numbers(DNA)),
        [*DNA, "NNacg-gRtta", "A"],
    ),
    "molecules, kernel": (
        lambda: MoleculeRegressor(**KERNEL_ONLY).fit(SMILES, numbers(SMILES)), SMILES,
    ),
    "several targets": (
        lambda: TextClassifier(**QUICK).fit(TEXTS, [["+", "a"], ["-", "b"]] * 20), TEXTS,
    ),
    "several labels": (
        lambda: TextClassifier(multilabel=True, **KERNEL_ONLY).fit(
            TEXTS, [["good"] * ("good" in t) + ["bad"] * ("bad" in t) for t in TEXTS]
        ),
        TEXTS,
    ),
    "series": (lambda: with_both(series(standardize="series", answer="both", **QUICK)), SERIES),
    "series, moments of training": (
        lambda: with_both(series(standardize="training", answer="both", **QUICK)), SERIES,
    ),
    "sequences": (
        lambda: with_both(
            SequenceClassifier(kernel=KERNEL, **QUICK).fit(STRINGS, labels(STRINGS))
        ),
        STRINGS,
    ),
    "sequences of vectors": (
        lambda: with_both(SequenceRegressor(**QUICK).fit(
            [own.T[:6] for own in SERIES], numbers(SERIES)
        )),
        [own.T[:5] for own in SERIES],
    ),
    "signals": (lambda: with_both(signals()), WINDOWS),
    "signals, moments of subjects": (
        lambda: with_both(signals(recenter="subject")), WINDOWS[:10],
    ),
    "molecules": (
        lambda: with_both(MoleculeRegressor(hidden_size=4, **QUICK).fit(SMILES, numbers(SMILES))),
        SMILES,
    ),
    "molecules, several targets": (
        lambda: MoleculeClassifier(hidden_size=4, **QUICK).fit(
            SMILES, [[int("O" in s), int("N" in s)] for s in SMILES]
        ),
        SMILES,
    ),
}  # fmt: skip
FAST = 5
PARAMETERS = [
    pytest.param(name, marks=[] if k < FAST else [pytest.mark.slow]) for k, name in enumerate(CASES)
]


@pytest.mark.filterwarnings("ignore:.* sequences have nothing that training had")
@pytest.mark.parametrize("name", PARAMETERS)
def test_a_program_predicts_what_the_run_does(name: str, tmp_path: Path):
    build, objects = CASES[name]
    model = build()
    run = export_run(model, tmp_path)
    assert run.left_out == ""
    found = runpy.run_path(str(tmp_path / "predict.py"))["predict"](objects)
    wanted = model.predict_proba(objects) if hasattr(model, "classes_") else model.predict(objects)
    for own, expected in zip(*((x if isinstance(x, list) else [x]) for x in (found, wanted)),
                             strict=True):  # fmt: skip
        np.testing.assert_allclose(
            own.reshape(np.shape(expected)), expected, rtol=TOLERANCE, atol=TOLERANCE
        )


def test_sets_intervals_and_deviations_are_those_of_the_run(tmp_path: Path):
    for model, y in (
        (TextClassifier(conformal=0.8, **KERNEL_ONLY), labels(TEXTS)),
        (TextClassifier(conformal=0.5, conformal_by="class", **KERNEL_ONLY), labels(TEXTS)),
        (TextRegressor(conformal=0.8, **KERNEL_ONLY), numbers(TEXTS)),
    ):
        model.fit(TEXTS, y)
        export_run(model, tmp_path)
        own = runpy.run_path(str(tmp_path / "predict.py"))
        found = [one for (one,) in own["records"](own["predicted"](TEXTS[:4]))]
        if isinstance(model, TextClassifier):
            assert [tuple(one["set"]) for one in found] == model.predict_set(TEXTS[:4])
            continue
        _, deviations = model.predict(TEXTS[:4], return_std=True)
        np.testing.assert_allclose([one["deviation"] for one in found], deviations)
        intervals = np.stack(model.predict_interval(TEXTS[:4]), axis=1)
        np.testing.assert_allclose([one["interval"] for one in found], intervals)


@pytest.mark.slow
def test_the_deviation_of_a_gaussian_process_is_that_of_the_run(tmp_path: Path):
    nx = pytest.importorskip("networkx")
    graphs = [nx.cycle_graph(n) if n % 2 else nx.path_graph(n) for n in range(4, 24)]
    lines = [{"nodes": [0] * len(g), "edges": [list(e) for e in g.edges]} for g in graphs]
    model = with_both(GraphRegressor(hidden_size=4, **QUICK).fit(graphs, numbers(graphs)))
    export_run(model, tmp_path)
    own = runpy.run_path(str(tmp_path / "predict.py"))
    ((found,), wanted) = own["predicted"](lines), model.predict(graphs, return_std=True)
    np.testing.assert_allclose(found.T, wanted, atol=TOLERANCE)


def test_a_kernel_that_programs_lack_is_named(tmp_path: Path):
    other = StringKernel(1, base=Gaussian())
    assert is_plain_string(KERNEL)
    assert not is_plain_string(other)
    model = SequenceClassifier(kernel=other, **QUICK).fit(STRINGS, labels(STRINGS))
    with pytest.raises(
        KindError, match=r"kernel is StringKernel\(base=Gaussian.*its sums, products"
    ):
        export_run(model, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_kernel_machine_that_is_left_out_is_named_and_the_network_predicts(
    exported: Exported, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(content, "_kernel", lambda kernel: None)
    found = content_of(exported.estimator)
    share = exported.estimator.parts_["kernel"].share
    assert found.left_out == (f"the kernel machine (its share of the predictions is {share:.0%})",)
    assert (found.values["targets"][0]["kernel"], found.arrays) == (0.0, {})


def test_a_page_lacks_classes_that_have_no_coefficients_of_their_own(tmp_path: Path):
    with pytest.raises(KindError, match="one that programs compute"):
        export_run(by_centroids(), tmp_path, to="html")


def test_a_kernel_that_programs_lack_is_refused_if_it_predicts_alone():
    model = SequenceClassifier(base="mismatch", orders=(2,), **KERNEL_ONLY).fit(DNA, labels(DNA))
    with pytest.raises(KindError, match="one that programs compute"):
        content_of(model)
