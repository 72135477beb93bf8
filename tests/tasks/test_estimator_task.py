"""The parts of a task that trains an estimator: options, splits, labels and results."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, get_type_hints

import numpy as np
import pytest

from representer.data.molecules.table import are_numbers
from representer.data.tables import Dropped
from representer.errors import ArgumentError, DataError
from representer.estimators import GraphClassifier, MoleculeClassifier
from representer.estimators.graph_inputs import PlainGraph
from representer.estimators.targets import Classes
from representer.options.graph import GraphConfig, GraphParameters
from representer.options.molecule import MoleculeConfig, MoleculeRegressorParameters
from representer.options.task import (
    RunConfig,
    config_of,
    parameters_of,
    refuse_parameters_of_others,
)
from representer.report.page import (
    Column,
    Predictions,
    compared,
    figures_by_target,
    mistakes,
)
from representer.tasks.flow import EstimatorComparison, EstimatorTask
from representer.tasks.objects import (
    Data,
    Objects,
    are_fractions,
    divided,
    encode_labels,
    find_classes,
)
from representer.tasks.results import (
    Baseline,
    Facts,
    kept_sentence,
    predictions_of_baseline,
    summary,
    verdicts,
)


def objects(labels: list[str | None]) -> Objects:
    return Objects("toy", "toy.txt", [*range(len(labels))], labels, [*range(1, len(labels) + 1)])


def test_every_parameter_of_the_estimator_is_an_option_with_its_default_and_help():
    options = {one.name: one for one in fields(GraphConfig)}
    left_out = {"random_state", "n_jobs", "callbacks", "verbose", "warm_start", "calibration"}
    for one in fields(GraphParameters):
        assert (one.name in options) == (one.name not in left_out), one.name
        if one.name in options:
            assert options[one.name].default == one.default
            assert options[one.name].metadata.items() >= one.metadata.items()  # and its group
    assert get_type_hints(GraphConfig)["decay"] is str


def test_options_reach_the_estimator_and_those_of_another_are_refused():
    config = GraphConfig(hidden_size=7, seed=3, threads=2)
    chosen = parameters_of(config, GraphClassifier)
    estimator = GraphClassifier(**chosen)
    assert (estimator.hidden_size, estimator.random_state, estimator.n_jobs) == (7, 3, 2)
    of_regressor = MoleculeClassifier, MoleculeRegressorParameters
    assert "balance" not in parameters_of(MoleculeConfig(), MoleculeClassifier)
    refuse_parameters_of_others(MoleculeConfig(), *of_regressor)
    with pytest.raises(ArgumentError, match=r"balance is 0\.5"):
        refuse_parameters_of_others(MoleculeConfig(balance=0.5), *of_regressor)


@dataclass(frozen=True)
class Reading:
    order: int = 2
    valid_fraction: float = 0.3


@dataclass(frozen=True)
class Parameters:
    order: int = 1
    borders: tuple[int, ...] = ()


def test_the_first_of_two_options_counts_and_a_list_is_a_text():
    kind = config_of("Config", __name__, Reading, Parameters, base=RunConfig)
    assert (kind().order, kind().borders) == (2, "")
    assert "kind" not in {one.name for one in fields(kind)}
    chosen = parameters_of(kind(borders="2000, 10000"), Parameters)
    assert chosen == {
        "order": 2, "borders": (2000, 10_000), "random_state": 0, "n_jobs": None,
    }  # fmt: skip
    for text in ("10;20", "١٠", "-1"):
        with pytest.raises(ArgumentError, match=f"borders is '{text}'; expected integers"):
            parameters_of(kind(borders=text), Parameters)


def test_labels_are_numbers_only_if_all_are_and_one_is_a_fraction():
    assert are_fractions(["0.5", "1"])
    assert not are_fractions(["1", "2.0"])
    assert not are_fractions(["0.5", "x"])
    assert not are_fractions(["0.5", None])
    assert not are_fractions(["0.5", "inf"])
    assert are_fractions(["0.5", "NA", "1", "nan", " n/a "])
    assert not are_fractions(["1", "NA"])
    assert not are_fractions(["NA", ""])
    assert are_fractions(["0,5", "1"])
    assert not are_fractions(["1,2,3", "0.5"])


def test_numbers_with_a_decimal_comma_are_read_and_those_with_thousands_are_refused():
    labels = ["0,5", "1"]
    assert encode_labels(Objects("a.csv", "a.csv", labels, labels, [2, 3]), []).tolist() == [0.5, 1]
    assert are_numbers(labels)
    labels = ["1,250", "6,335,100"]  # 1250 or 1.25
    source = Objects("a.csv", "a.csv", labels, labels, [2, 3], label_column="y")
    message = "a.csv, line 2, column 'y': the label is '1,250'; .* decimal point, such as 1250.5"
    with pytest.raises(DataError, match=message):
        encode_labels(source, [])


@pytest.mark.parametrize("form", ["${}.5", "{} %", "> {}", "{}.5 nM", "EUR {}"])
def test_numbers_with_units_are_no_classes_but_a_few_doses_are(form):
    labels = [form.format(k % 30) for k in range(90)]
    source = Objects("a.csv", "a.csv", labels, labels, range(2, 92), label_column="y")
    with pytest.raises(DataError, match="column 'y': the labels are numbers with a unit or sign"):
        find_classes(source)
    few = [form.format(k % 3) for k in range(90)]
    assert len(find_classes(Objects("a.csv", "a.csv", few, few, range(2, 92)))[0]) == 3
    numbered = [str(k % 30) for k in range(90)]
    own = Objects("a.csv", "a.csv", numbered, numbered, range(2, 92))
    assert len(find_classes(own)[0]) == 30


@pytest.mark.parametrize("bound", ["<0.5", "> 10", "≤2 nM"])
def test_censored_values_among_numbers_are_named_and_no_classes(bound):
    labels = [*(f"{k}.5" for k in range(30)), bound]
    source = Objects("a.csv", "a.csv", labels, labels, range(2, 33), label_column="y")
    problem = rf"column 'y': the label '{bound}' is a bound and no number .*Leave such rows out"
    with pytest.raises(DataError, match=problem):
        find_classes(source)
    with pytest.raises(DataError, match="a.csv, line 32, " + problem):
        encode_labels(source, [])
    ages = ["<18", "18-65", ">65"] * 30
    assert len(find_classes(Objects("a.csv", "a.csv", ages, ages, range(2, 92)))[0]) == 3


FRACTIONS = {"valid": 0.2, "test": 0.2}


def test_a_part_of_its_own_is_used_whole_and_must_have_known_labels():
    main, test = objects(["a", "b"] * 10), objects(["b", "a", "b"])
    data = divided({"all": main, "test": test}, FRACTIONS, 0, is_regression=False)
    assert data.values["test"].tolist() == [1, 0, 1]
    assert len(data.parts["train"]) + len(data.parts["valid"]) == 20
    with pytest.raises(
        DataError, match=r"toy\.txt, line 2.*the label 'c' is not one of the 2 classes"
    ):
        divided({"all": main, "test": objects(["a", "c"])}, FRACTIONS, 0, is_regression=False)


def test_unusable_labels_are_refused():
    with pytest.raises(DataError, match="all 9 labels are 'a'"):
        divided({"all": objects(["a"] * 9)}, FRACTIONS, 0, is_regression=False)
    with pytest.raises(DataError, match=r"all labels differ: '\$0', '\$1', '\$2' and 6 more"):
        divided({"all": objects([f"${k}" for k in range(9)])}, FRACTIONS, 0, is_regression=False)
    with pytest.raises(DataError, match="the training part has the one value 2"):
        divided({"all": objects(["2"] * 9)}, FRACTIONS, 0, is_regression=True)
    with pytest.raises(DataError, match="cannot be divided"):
        divided({"all": objects(["1", "2", "3"])}, FRACTIONS, 0, is_regression=True)
    with pytest.raises(DataError, match=r"line 2.*'inf'; expected a finite number"):
        encode_labels(objects(["1", "inf"]), [])


def test_a_model_is_compared_with_the_best_of_networks_and_baselines():
    truth = np.array([0, 1] * 50)
    right = [Predictions(truth, np.eye(2)[truth])]
    columns = [Column("", truth, ["a", "b"])]
    rows = []
    for name, wrong in (("constant", 50), ("other", 20)):
        values = np.where(np.arange(100) < wrong, 1 - truth, truth)
        own = predictions_of_baseline(Baseline(name, "", values, 0.0), columns)
        rows.append({"name": name} | compared(columns, right, own))
    metrics = {
        "kind": "classification", "model": "M", "targets": [], "test": {"count": 100},
        "comparisons": rows[1:], "baselines": rows[:1],
    }  # fmt: skip
    groups = [f"g{k % 4}" for k in range(len(columns[0].truth))]
    few = [{"name": "A"} | compared(columns, right, own, None, groups)]
    test = figures_by_target(columns, right, None, groups)
    said = verdicts(metrics | {"test": test, "baselines": few}, "graphs")["verdict"]
    assert "of 4 groups, " in said
    assert "too few to tell; it takes 6 groups." in said
    found = verdicts(metrics, "graphs")
    assert found["standing"][""]["baseline"] == "other"
    assert found["verdict"].startswith(
        "On 100 test graphs, M is ahead of the best baseline, other (+20.0 points"
    )
    numbers = np.linspace(0, 1, 100)
    columns = [Column("", numbers, [])]
    other = compared(columns, [Predictions(np.full(100, 0.5))], [Predictions(numbers)])
    metrics |= {"kind": "regression", "baselines": [{"name": "B"} | other], "comparisons": []}
    assert "M is behind B (RMSE +0.29" in verdicts(metrics, "graphs")["verdict"]
    assert verdicts(metrics | {"baselines": []}, "graphs") == {"standing": {"": {}}, "verdict": ""}


def test_the_closing_table_has_a_line_for_each():
    figures = {"accuracy": 0.5, "accuracy_interval": [0.4, 0.6], "macro_f1": 0.25}
    metrics = {
        "kind": "classification", "model": "M", "targets": [], "test": figures, "seconds": 2.0,
        "comparisons": [{"name": "C", "seconds": 1.0, **figures}],
        "baselines": [{"name": "B", "seconds": 1.0, **figures}],
    }  # fmt: skip
    header, model, *others = summary(metrics).splitlines()
    assert "accuracy" in header
    assert model.split() == ["M", "50.0", "%", "40.0", "–", "60.0", "%", "0.250", "2.0", "s"]
    assert [line[0] for line in others] == ["C", "B"]
    metrics["alone"] = [{"name": "kernel alone", "seconds": None, **figures}]
    assert summary(metrics).splitlines()[2].split()[:3] == ["kernel", "alone", "50.0"]


def test_the_most_confident_errors_come_first_and_correct_objects_are_left_out():
    texts = ["right", "unsure", "x " * 400, "sure"]
    part = Objects("a", "a", texts, ["a", "a", "b", "b"], [2, 3, 4, 9], is_numbered_by_line=True)
    values = np.array([0, 0, 1, 1])
    data = Data(Classes(("a", "b")), {"test": part}, {"test": values}, [("all", part)])
    found = np.array([[0.99, 0.01], [0.4, 0.6], [0.7, 0.3], [0.9, 0.1]])
    shown = mistakes(
        data.columns("test")[0], Predictions(found.argmax(1), found), texts, part.labels,
        part.numbers,
    )  # fmt: skip
    assert [m["number"] for m in shown] == [9, 4, 3]
    assert shown[0] == {"number": 9, "truth": "b", "predicted": "a (90 %)", "text": "sure"}
    assert shown[1]["text"].endswith(" …")
    assert len(shown[1]["text"]) < 330


def test_objects_that_cannot_be_used_are_dropped_with_their_lines():
    one = Objects("t", "t", ["a", "", "b"], ["x"] * 3, [2, 3, 5], dropped=[Dropped(4, "odd")])
    kept = one.usable(lambda text: "" if text else "empty")
    assert (kept.objects, kept.lines, kept.rows) == (["a", "b"], [2, 5], [1, 3])
    assert kept.dropped == [Dropped(3, "empty"), Dropped(4, "odd")]
    assert kept.described("all")["dropped"] == [
        {"reason": "empty", "count": 1, "lines": [3]}, {"reason": "odd", "count": 1, "lines": [4]}
    ]  # fmt: skip
    assert one.usable(lambda text: "") is one


def test_weights_of_an_earlier_epoch_are_named():
    assert kept_sentence({"best_epoch": 11.0, "epochs": 28.0}) == (
        "The network's weights are those of epoch 11 of 28, the best on the validation data."
    )
    assert kept_sentence({"best_epoch": 28.0, "epochs": 28.0}) == ""
    assert kept_sentence({"valid": None}) == ""  # a kernel alone


@pytest.mark.parametrize("kind", ["text", "graph", "molecule"])
def test_copies_stay_in_one_part_and_are_counted(kind, capsys):
    """Of 40 objects, each twice: the second in other cases, spelling or order of the nodes."""
    flow, made = copied(kind)
    task = reading(flow, lambda path: made)
    config = config_class(kind)(data="toy", test_fraction=0.2)
    data = task.prepare(config)
    assert "toy: 40 of 80 " in capsys.readouterr().err
    assert "equal others, and stay with them in a split" in data.facts["copies"]
    rows = {name: {(row - 1) % 40 for row in part.rows} for name, part in data.parts.items()}
    assert sum(map(len, rows.values())) == 40
    assert len(data.distinct("test")) == len(rows["test"]) == len(data.parts["test"]) / 2
    trained = np.frombuffer(bytes.fromhex(data.splits()["trained_on"]), np.int64)
    inside = np.isin(flow.classifier.digests(made.objects), trained)
    assert inside.sum() == 80 - len(data.parts["test"])
    folds = EstimatorComparison(flow=task, config=config, sources=dict(data.sources),
                                folds=[*(row % 4 for row in range(38)), -1, -1] * 2)  # fmt: skip
    train, valid, test = folds._positions(1, dict(data.sources)["all"], ())
    assert {38, 39} <= {row % 40 for row in [*train, *valid]}  # of no fold: never tested
    assert not {row % 40 for row in train} & {row % 40 for row in valid}
    assert {row % 40 for row in test} == {row for row in range(38) if row % 4 == 1}
    assert sorted([*train, *valid, *test]) == [*range(80)]


@pytest.mark.parametrize("kind", ["text", "graph", "molecule"])
def test_groups_stay_in_one_part_whatever_the_task_and_are_counted(kind, capsys):
    """Of 80 objects of 40 groups; copies are in two groups."""
    flow, made = copied(kind)
    names = [f"g{k % 40}" if k % 40 < 30 else f"g{k // 2}" for k in range(80)]
    task = reading(flow, lambda path: replace(made, groups=names), seen := {})
    chosen = {"data": "toy", "test_fraction": 0.2, "valid_fraction": 0.25, "groups": "author"}
    config = config_class(kind)(**chosen, conformal=0.5)
    data = task.prepare(config)
    assert seen["groups"] == "author"
    count = len({*names})
    assert f"belong to {count} groups, each in one part of a split" in capsys.readouterr().err
    of_part = {name: {*part.groups} for name, part in data.parts.items()}
    assert {*of_part} == {"train", "valid", "test", "calibration"}
    assert sum(map(len, of_part.values())) == len(set().union(*of_part.values()))
    assert len({*data.parts["calibration"].groups}) == len(data.parts["calibration"])
    assert data.groups == data.parts["test"].groups
    assert data.groups_of["train"].tolist() == list(data.parts["train"].groups)
    digests = {name: {*part.digests} for name, part in data.parts.items()}
    assert not digests["train"] & (digests["valid"] | digests["test"] | digests["calibration"])
    folds = EstimatorComparison(flow=task, config=config, sources=dict(data.sources),
                                folds=[int(name[1:]) % 4 for name in names])  # fmt: skip
    train, valid, _ = folds._positions(1, dict(data.sources)["all"], ())
    assert not {names[row] for row in train} & {names[row] for row in valid}
    few = reading(flow, lambda path: replace(made, groups=["a", "b"] * 40))
    with pytest.raises(DataError, match=r"2 groups cannot be divided .* Add groups"):
        few.prepare(config)
    with pytest.raises(DataError, match=r"needs at least 99 calibration groups; there are \d"):
        task.prepare(replace(config, conformal=0.99))


@pytest.mark.parametrize("kind", ["text", "graph", "molecule"])
def test_a_run_that_continues_without_its_data_is_told_how(kind):
    flow, config = copied(kind)[0], config_class(kind)
    with pytest.raises(ArgumentError, match=r"--config runs/a/config\.yaml --resume"):
        flow.prepare(config(out="runs/a", resume=True))
    with pytest.raises(ArgumentError, match=f"representer fit {kind} --demo"):
        flow.prepare(config(out="runs/a"))
    with pytest.raises(ArgumentError, match="groups is 'a'; expected nothing with --demo"):
        config(demo=True, groups="a")


def test_an_object_without_a_group_is_left_out_and_groups_of_two_files_are_named(capsys):
    flow, made = copied("text")
    mine = replace(made, groups=["", *map(str, range(1, 80))])
    other = replace(made, objects=[f"new {k}" for k in range(80)], groups=["5", "6"] * 40)
    task = reading(flow, lambda path: mine if path == "toy" else other)
    config = config_class("text")(data="toy", test="other", groups="author")
    assert len(task.sources(config)["all"]) == 79
    shown = capsys.readouterr().err
    assert "toy: 1 row left out: 1 empty group (line 1)" in shown
    assert "toy: 2 groups of the test file have training documents, too" in shown


def test_a_test_file_with_training_objects_is_named(capsys):
    flow, made = copied("text")
    others = Objects("other", "other", ["GOOD 3 3", "new", "newer"], ["a"] * 3, [1, 2, 3])
    task = reading(flow, lambda path: made if path == "toy" else others)
    task.sources(config_class("text")(data="toy", test="other", min_length=1))
    shown = capsys.readouterr().err
    assert "toy: 1 documents of the test file are training documents, too" in shown


def reading(
    flow: EstimatorTask, read: Callable[[str], Objects], seen: dict[str, Any] | None = None
) -> EstimatorTask:
    class Toy(type(flow)):  # type: ignore[misc]
        def read(self, path, **how):
            (seen if seen is not None else {}).update(how)
            return read(path)

        def describe(self, config, data):
            return Facts({})

    return Toy()


def copied(kind: str) -> tuple[EstimatorTask, Objects]:
    flow = importlib.import_module(f"representer.tasks.{kind}").FLOW
    rng, labels = np.random.default_rng(0), ["ab"[k % 2] for k in range(40)]
    if kind == "text":
        first = [f"good {k} {k}" for k in range(40)]
        second = [f" GOOD  {k} {k}" for k in range(40)]
    elif kind == "molecule":
        first = ["C" * k + "CO" for k in range(40)]
        second = ["OC" + "C" * k for k in range(40)]
    else:
        ends = [np.array([[v, v + 1] for v in range(k + 1)]).T for k in range(40)]
        moved = [rng.permutation(k + 2)[own] for k, own in enumerate(ends)]
        first, second = ([PlainGraph(k, k + 2, own, None, None) for k, own in enumerate(many)]
                         for many in (ends, moved))  # fmt: skip
    made = Objects("toy", "toy", [*first, *second], labels * 2, range(1, 81))
    if kind == "molecule":
        made = replace(made, labels=[(label,) for label in made.labels], targets=("y",))
    return flow, made


def config_class(kind: str):
    module = importlib.import_module(f"representer.options.{kind}")
    return getattr(module, f"{kind.capitalize()}Config")
