"""Repeated splits of several models: results are kept, continued and summarized."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from representer.errors import (
    ArgumentError,
    DataError,
    Interrupted,
    RepresenterError,
    RunFolderError,
    StorageError,
    TrainingError,
)
from representer.storage.atomic import lock
from representer.tasks.comparison import (
    BASELINES,
    METRICS,
    MODEL_UNIT,
    RESULTS,
    Comparison,
    ComparisonTable,
    Result,
    as_markdown,
    as_text,
    finished,
    paired_interval,
    run_and_report,
    run_missing,
    score_interval,
)

# Losses of four test examples on two splits, by row.
LOSSES: dict[str, list[list[float]]] = {
    "counts": [[1, 1, 0, 0], [1, 0, 0, 1]], "constant": [[1, 1, 1, 1], [1, 1, 1, 0]],
    "both": [[0, 0, 0, 0], [0, 0, 0, 1]], "network": [[0, 1, 0, 0], [0, 0, 1, 1]],
    "network, lstm": [[1, 0, 0, 0], [1, 0, 0, 0]],
}  # fmt: skip
UNITS = {BASELINES: ("counts", "constant"), MODEL_UNIT: ("both", "network")}


@dataclass(frozen=True, kw_only=True)
class MadeUp(Comparison):
    """Fixed losses; `ran` lists what was run."""

    config: Any = None
    splits: Any = range(2)
    data: str = "toy"
    seconds: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[tuple[int, str], RepresenterError] = field(default_factory=dict)
    ran: list[tuple[int, str]] = field(default_factory=list)
    metric: Any = "accuracy"
    has_fixed_test: Any = False
    title: Any = "toy: 2 splits"

    @property
    def settings(self) -> dict[str, Any]:
        return {"data": self.data}

    def run(self, split: int, unit: str) -> list[Result]:
        self.ran.append((split, unit))
        if error := self.errors.get((split, unit)):
            raise error
        return [
            Result(name, LOSSES[name][split], self.seconds.get(name, 1.0), 16, unit == BASELINES)
            for name in UNITS.get(unit, (unit,))
        ]


def test_a_line_cut_off_by_a_kill_is_run_again(tmp_path: Path):
    expected = run_missing(MadeUp(), tmp_path)
    path = tmp_path / RESULTS
    whole = path.read_bytes()
    for cut in (1, 40):
        path.write_bytes(whole[:-cut])
        again = MadeUp()
        assert run_missing(again, tmp_path) == expected
        assert again.ran == [(1, MODEL_UNIT)]
        assert path.read_bytes() == whole


def test_a_restart_leaves_the_file_of_finished_units_as_it_is(tmp_path: Path):
    """It deleted the file and appended line after line: a kill kept 1 of 80 units."""
    run_missing(MadeUp(), tmp_path)
    path = tmp_path / RESULTS
    before, content = path.stat(), path.read_bytes()
    (tmp_path / ".representer-0123456789abcdef.tmp").write_bytes(content[:50])  # of a kill
    again = MadeUp()
    run_missing(again, tmp_path)
    assert again.ran == []
    assert path.read_bytes() == content
    assert path.stat().st_ino == before.st_ino
    assert {one.name for one in tmp_path.iterdir()} == {RESULTS, "comparison.json", ".lock"}
    path.write_bytes(content[:-5])  # a line that was cut off
    run_missing(again, tmp_path)
    assert len(again.ran) == 1
    assert sorted(path.read_bytes().splitlines()) == sorted(content.splitlines())


def test_a_damaged_line_costs_its_own_unit_only(tmp_path: Path):
    run_missing(MadeUp(), tmp_path)
    first, second, *others = (tmp_path / RESULTS).read_bytes().splitlines(keepends=True)
    damage = b"[" * 100_000 + b"\n"
    (tmp_path / RESULTS).write_bytes(b"".join([first, damage, *others]))
    again = MadeUp()
    run_missing(again, tmp_path)
    assert len(again.ran) == 1
    lines = (tmp_path / RESULTS).read_bytes().splitlines(keepends=True)
    assert sorted(lines) == sorted([first, second, damage, *others])
    run_missing(again, tmp_path)
    assert len(again.ran) == 1


@pytest.mark.parametrize("name", [RESULTS, "comparison.json"])
def test_files_of_a_comparison_are_no_links(tmp_path: Path, name: str):
    folder, outside = tmp_path / "out", tmp_path / "outside"
    run_missing(MadeUp(), folder)
    (folder / name).rename(outside)
    (folder / name).symlink_to(outside)
    before = outside.read_bytes()
    with pytest.raises((DataError, StorageError), match="symbolic link"):
        run_missing(MadeUp(splits=range(3)), folder)
    assert outside.read_bytes() == before


@pytest.mark.parametrize("text", ["[" * 3000, "{", "3", "[1]"])
def test_damaged_settings_of_a_comparison_are_named(tmp_path: Path, text: str):
    run_missing(MadeUp(), tmp_path)
    (tmp_path / "comparison.json").write_text(text)
    with pytest.raises(DataError, match=r"comparison\.json: cannot be used: "):
        run_missing(MadeUp(), tmp_path)


def test_an_interruption_keeps_what_is_finished_and_names_the_way_to_continue(tmp_path: Path):
    stopped = MadeUp(errors={(1, BASELINES): Interrupted("stopped; --resume", 143)})
    with pytest.raises(Interrupted, match=f"kept in {tmp_path}; the same command") as caught:
        run_missing(stopped, tmp_path)
    assert caught.value.exit_code == 143
    again = MadeUp()
    run_missing(again, tmp_path)
    assert again.ran == [(1, BASELINES), (1, MODEL_UNIT)]


def test_divergence_of_one_unit_does_not_stop_the_others_and_other_errors_do(tmp_path: Path):
    lines: list[str] = []
    diverged = MadeUp(errors={(0, MODEL_UNIT): TrainingError("the loss is NaN")})
    rows = run_missing(diverged, tmp_path / "a", report=lines.append)
    assert "split 1, model: the loss is NaN" in lines
    assert list(rows["both"]) == [1]
    assert list(rows["counts"]) == [0, 1]
    assert "both (1 of 2 splits)" in as_text(ComparisonTable.of(diverged, rows))
    wrong = MadeUp(errors={(0, MODEL_UNIT): DataError("a text is empty")})
    with pytest.raises(RepresenterError, match="a text is empty") as caught:
        run_missing(wrong, tmp_path / "b")
    assert caught.value.exit_code == 2


def test_a_folder_of_another_comparison_or_of_other_files_is_refused(tmp_path: Path):
    run_missing(MadeUp(), tmp_path / "out")
    with pytest.raises(ArgumentError, match="data is 'other'; expected 'toy'"):
        run_missing(MadeUp(data="other"), tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(ArgumentError, match="expected a new folder, or that of a comparison"):
        run_missing(MadeUp(), tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_a_folder_in_which_nothing_was_finished_takes_another_comparison(tmp_path: Path):
    error = DataError("no word occurs twice")
    with pytest.raises(DataError, match="occurs twice"):
        run_missing(MadeUp(errors={(0, BASELINES): error}), tmp_path / "out")
    assert len(run_missing(MadeUp(data="other"), tmp_path / "out")["both"]) == 2
    with pytest.raises(ArgumentError, match="data is 'toy'; expected 'other'"):
        run_missing(MadeUp(), tmp_path / "out")


def test_a_folder_that_another_process_writes_into_is_refused(tmp_path: Path):
    held = lock(tmp_path / "out")
    with pytest.raises(RunFolderError, match="in use"):
        run_missing(MadeUp(), tmp_path / "out")
    held.release()
    run_missing(MadeUp(), tmp_path / "out")


def table(**options: Any) -> ComparisonTable:
    comparison = MadeUp(**options)
    results: dict[str, dict[int, Result]] = {}
    for split, unit in ((s, u) for s in range(2) for u in UNITS):
        for one in comparison.run(split, unit):
            results.setdefault(one.name, {})[split] = one
    return ComparisonTable.of(comparison, results)


def test_rows_are_ordered_by_their_score_and_compared_with_the_best_baseline():
    rows = table().rows
    assert [row.name for row in rows] == ["both", "network", "counts", "constant"]
    assert [row.score.mean for row in rows] == [87.5, 62.5, 50.0, 12.5]
    assert [row.difference and row.difference.mean for row in rows] == [37.5, 12.5, None, -37.5]
    losses = table(metric="rmse").rows
    assert [row.name for row in losses] == ["both", "network", "counts", "constant"]
    assert losses[0].score.mean == pytest.approx(0.25)
    assert losses[0].difference is not None
    assert losses[0].difference.mean == pytest.approx(0.25 - 0.5**0.5)


ALL, NONE = [0] * 20, [1] * 20  # wrong answers of a split
AHEAD = {"both": [ALL, ALL, ALL], "counts": [NONE, NONE, [*NONE[1:], 0]]}


@pytest.mark.parametrize(("losses", "seconds", "expected"), [
    (AHEAD, {}, "Use both (accuracy 100.0 %), which is ahead of counts "
                "(+98.3 points, +82.7 to +114.0)."),
    ({**AHEAD, "network": [ALL] * 3}, {"network": 0.2},
     "Use both (accuracy 100.0 %), which is ahead of counts (+98.3 points, +82.7 to +114.0); "
     "network is level with it (+0.0 points, +0.0 to +0.0) and takes 0.2 s instead of 1.0 s."),
    ({**AHEAD, "majority class": [ALL] * 3}, {"majority class": 0.2},  # no model of the data
     "Use both (accuracy 100.0 %), which is ahead of counts (+98.3 points, +82.7 to +114.0)."),
    ({"both": AHEAD["counts"], "counts": [ALL] * 3}, {},
     "Use counts (accuracy 100.0 %), which is ahead of both (+98.3 points, +82.7 to +114.0)."),
    ({"both": [ALL] * 3, "counts": [ALL] * 3}, {"counts": 5.0, "both": 2.0},
     "Use counts (accuracy 100.0 %), which is level with both (+0.0 points, +0.0 to +0.0); "
     "both takes 2.0 s instead of 5.0 s."),
    ({"both": [ALL], "counts": [NONE]}, {},
     "Use both (accuracy 100.0 %), on too few splits to tell it from counts (+100.0 points)."),
    ({"counts": [[4.0] * 8] * 2, "both": [[1.0] * 8, [1.0201] * 8]}, {},
     "Use both (RMSE 1.0050), which is ahead of counts (-0.9950, -1.0848 to -0.9052)."),
])  # fmt: skip
def test_the_recommendation_names_the_best_row_and_a_faster_one_that_is_level(
    losses, seconds, expected
):
    metric = "rmse" if "RMSE" in expected else "accuracy"
    results = {
        name: {
            split: Result(name, own, seconds.get(name, 1.0), 16, name in UNITS[BASELINES])
            for split, own in enumerate(by_split)
        }
        for name, by_split in sorted(losses.items(), key=lambda row: row[0] != "counts")
    }
    assert ComparisonTable.of(MadeUp(metric=metric), results).recommendation() == expected


@pytest.mark.parametrize(
    ("areas", "sentence"),
    [([0.9, 0.75], "0.825): ahead of counts (+0.425, +0.036 to +0.814)."),
     ([0.9, 0.8], ""),  # equal differences do not tell how much they vary
     ([0.8, 0.3], "0.550): level with counts (+0.150, -2.962 to +3.262)."),
     ([0.5, 0.2], "")],
)  # fmt: skip
def test_the_table_says_what_ranks_best_if_that_is_another_row(areas, sentence):
    """Half of an interval of two splits, a quarter as many test examples: 12.71 √(1/2 + 1/4) s."""
    results = {
        name: {k: Result(name, [1, 0, 0, 0], 1.0, 16, name == "counts", auc=own[k]) for k in (0, 1)}
        for name, own in {"counts": [0.45, 0.35], "both": areas}.items()
    }
    made = ComparisonTable.of(MadeUp(), results)
    assert [row[-2] for row in made.cells()][:2] == ["AUC", "0.400"]
    _, begins, rest = made.recommendation().partition(" To rank by probability, both is the best ")
    assert rest == (begins and f"(area under the ROC curve {sentence}")
    assert bool(begins) == bool(sentence)


def test_a_comparison_without_areas_has_no_column_for_them():
    results = {"both": {0: Result("both", [1.0], 1.0, 16)}}
    assert ComparisonTable.of(MadeUp(), results).cells()[0][-2:] == ["difference", "training"]


def test_rows_without_a_common_split_are_shown_without_a_difference():
    results = {
        "counts": {0: Result("counts", [1.0, 0.0], 1.0, 16, True)},
        "both": {1: Result("both", [0.0, 0.0], 1.0, 16)},
    }
    made = ComparisonTable.of(MadeUp(), results)
    assert [row[3] for row in made.cells()[1:]] == ["no common split", ""]
    assert made.recommendation().endswith(
        "on too few splits to tell it from counts (no common split)."
    )


def test_names_of_files_and_models_are_text_in_the_page(tmp_path: Path):
    name, link = "<img src=x>", "[a](http://b)"
    results = {f"{name} | {link}": {0: Result("a", [0.0], 1.0, 16)}}
    lines = as_markdown(ComparisonTable.of(MadeUp(), results))
    assert lines[2].startswith("| &lt;img src=x> \\| \\[a\\]\\(http&#58;//b) | ")
    assert "<" not in lines[-1]
    comparison = MadeUp(title=f"{name} {link}\n# c: 2 splits")
    run_and_report(comparison, tmp_path, jobs=1, command=f"compare 'a`b' {link}")
    page = (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()
    assert page[0] == "# &lt;img src=x> \\[a\\]\\(http&#58;//b) \\# c: 2 splits"
    assert page[2].startswith("Made by `` compare 'a`b' [a](http://b) `` with torch ")


def test_equal_differences_of_two_splits_are_as_wide_as_their_examples_allow():
    """Two gains of 20 have a variance of 0.09 / 19; 12.71 √((1/2 + 1/4) · 0.0047) is 0.757."""
    losses = {"both": [ALL, ALL], "counts": [[1, 1, *ALL[2:]]] * 2}
    results = {
        name: {k: Result(name, own[k], 1.0, 80, name == "counts") for k in (0, 1)}
        for name, own in losses.items()
    }
    made = ComparisonTable.of(MadeUp(), results)
    assert "which is level with counts (+10.0 points, -65.7 to +85.7)." in made.recommendation()


@pytest.mark.parametrize(("subjects", "is_told"), [(5, False), (6, True)])
def test_few_groups_of_test_objects_are_too_few_to_tell_models_apart(subjects, is_told):
    """Each split tests on a subject, of which there are as many as an exact paired test needs."""
    models = {"both": (ALL, 1.0, 0.5), "counts": (NONE, 0.1, 0.1), "network": (ALL, 0.1, 0.9)}
    results: Any = {name: {} for name in models}
    for name, (own, seconds, auc) in models.items():
        for k in range(subjects):
            wrong = [k % 2 * (name != "counts"), *own[1:]]
            results[name][k] = Result(
                name, wrong, seconds, 80, name == "counts", auc=auc + 0.01 * k,
                groups=[f"subject {k}"] * len(own),
            )  # fmt: skip
    made = ComparisonTable.of(MadeUp(), results)
    said = made.recommendation()
    assert ("on too few groups to tell it from counts" in said) != is_told
    assert ("which is level with counts" in said) == is_told
    assert ("network is level with it" in said) == is_told
    assert "network is not told apart from it" in said or is_told


def test_the_page_has_title_command_table_and_recommendation(tmp_path: Path, capsys):
    run_and_report(MadeUp(), tmp_path, jobs=1, command="representer compare toy")
    page = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert page.startswith("# toy: 2 splits\n\nMade by `representer compare toy` with torch ")
    assert "| both | 87.5 |" in page
    assert "\nUse both (accuracy 87.5 %)" in page
    shown = capsys.readouterr().out
    assert "Use both (accuracy 87.5 %)" in shown
    assert finished(MadeUp(), tmp_path)["both"][0].losses == [0, 0, 0, 0]


# Intervals of scores and differences over repeated splits.


ACCURACY, RMSE = METRICS["accuracy"], METRICS["rmse"]
QUANTILE = 4.302652729911275  # of Student's t with 2 degrees of freedom, 97.5 %


def row(losses, train=30) -> dict[int, Result]:
    return {k: Result("row", list(map(float, own)), 1.0, train) for k, own in enumerate(losses)}


def test_the_interval_of_different_test_parts_is_that_of_nadeau_and_bengio():
    first = row([[0, 0, 0, 0, 1], [0, 0, 0, 0, 0], [0, 0, 0, 1, 1]])  # 80, 100, 60 %
    found = score_interval(first, ACCURACY, has_fixed_test=False)
    half = QUANTILE * math.sqrt((1 / 3 + 5 / 30) * 400)  # s² = 400
    assert found == pytest.approx((80.0, 80 - half, 100.0))  # 80 + half is no accuracy
    assert 80 + half > 100
    second = row([[0, 0, 0, 0, 1], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1]])  # 80, 60, 40 %
    found = paired_interval(first, second, ACCURACY, has_fixed_test=False)
    half = QUANTILE * math.sqrt((1 / 3 + 5 / 30) * 400)  # of the differences 0, 40, 20
    assert found == pytest.approx((20.0, 20 - half, 20 + half))


def test_one_test_part_adds_the_variance_of_its_examples():
    first, second = row([[0, 0, 0, 1]] * 3), row([[1, 0, 1, 1]] * 3)
    found = paired_interval(first, second, ACCURACY, has_fixed_test=True)
    differences = np.array([100, 0, 100, 0])  # of each example
    quantile = 3.182446305284263  # of Student's t with 3 degrees of freedom, of four examples
    half = quantile * math.sqrt(differences.var(ddof=1) / 4)
    assert found == pytest.approx((50.0, 50 - half, 50 + half))
    other = row([[1, 0, 1, 1], [0, 0, 1, 1], [1, 0, 0, 1]])
    found = paired_interval(first, other, ACCURACY, has_fixed_test=True)
    means = np.array([100, 0, 100, 0]) * [2 / 3, 1, 2 / 3, 1]  # over the splits
    spread = np.array([50, 25, 25]).var(ddof=1)
    rows = means.var(ddof=1) / 4
    half = math.sqrt(QUANTILE**2 * spread / 3 + quantile**2 * rows)
    assert found == pytest.approx((100 / 3, 100 / 3 - half, 100 / 3 + half))


@pytest.mark.parametrize(("gains", "is_told"), [(4, False), (5, False), (6, True)])
def test_on_one_test_part_a_difference_is_told_where_the_exact_test_tells_it(gains, is_told):
    """Of 40 examples; as of a single split, since the splits agree."""
    first, second = row([[0] * 40] * 5), row([[1] * gains + [0] * (40 - gains)] * 5)
    found = paired_interval(first, second, ACCURACY, has_fixed_test=True)
    assert found.mean == pytest.approx(2.5 * gains)
    assert (found.low > 0) == is_told
    errors = row([[4.0, 5.0, 6.0]] * 5), row([[1.0, 1.0, 1.0]] * 5)
    assert paired_interval(*errors, RMSE, has_fixed_test=True).low == 0  # of three examples


@pytest.mark.parametrize("has_fixed_test", [False, True])
def test_examples_of_a_group_that_are_all_alike_count_once(has_fixed_test):
    """Of 18 groups of ten examples, six of which the second model alone gets wrong."""
    names, wrong = [str(k // 10) for k in range(180)], [float(k // 10 < 7) for k in range(180)]
    alone = [row([losses] * 3, train=36) for losses in ([0] * 18, wrong[::10])]
    alike = [
        {k: replace(one, groups=names) for k, one in row([losses] * 3, train=360).items()}
        for losses in ([0] * 180, wrong)
    ]
    expected = paired_interval(*alone, ACCURACY, has_fixed_test=has_fixed_test)
    found = paired_interval(*alike, ACCURACY, has_fixed_test=has_fixed_test)
    assert found == pytest.approx(expected)
    few = [{k: replace(one, groups=["a", "b"] * 90) for k, one in own.items()} for own in alike]
    assert not paired_interval(*few, ACCURACY, has_fixed_test=has_fixed_test).low > 0
    numbers = [{k: replace(one, losses=[1 + loss for loss in one.losses]) for k, one in own.items()}
               for own in few]  # fmt: skip
    assert not paired_interval(*numbers, RMSE, has_fixed_test=has_fixed_test).high < 0


def test_the_influences_of_examples_are_those_of_the_score():
    rng = np.random.default_rng(0)
    losses = rng.exponential(2.0, size=(1, 4000))
    row_of_two = row(np.repeat(losses, 2, axis=0))
    low, high = score_interval(row_of_two, RMSE, has_fixed_test=True)[1:]
    drawn = rng.choice(losses[0], size=(2000, 4000)).mean(1) ** 0.5
    bounds = np.quantile(drawn, (0.025, 0.975))
    # a quantile of 2,000 draws is within 4 % of the width
    np.testing.assert_allclose([low, high], bounds, atol=0.04 * (high - low))


def test_differences_are_paired_over_the_splits_that_both_rows_have():
    first, second = row([[0, 1], [0, 0], [1, 1]]), row([[1, 1], [0, 1], [1, 1]])
    del second[1]
    found = paired_interval(first, second, ACCURACY, has_fixed_test=False)
    assert found.mean == 25.0


def test_a_single_split_has_no_interval():
    found = score_interval(row([[0, 1]]), ACCURACY, has_fixed_test=False)
    assert found.mean == 50.0
    assert math.isnan(found.low)
    assert math.isnan(found.high)


@pytest.mark.parametrize("name", METRICS)
def test_a_score_never_leaves_its_range_and_its_slope_is_its_derivative(name: str):
    metric = METRICS[name]
    for mean in (0.1, 0.5, 0.9):
        slope = (metric.score(mean + 1e-6) - metric.score(mean - 1e-6)) / 2e-6
        assert metric.slope(mean) == pytest.approx(slope, rel=1e-6)
        assert metric.is_loss == (slope > 0)
    low, high = score_interval(row([[0.0, 0.0], [1.0, 1.0]]), metric, has_fixed_test=False)[1:]
    assert metric.range[0] <= low < high <= metric.range[1]


def test_the_interval_covers_the_true_score_about_as_often_as_it_says():
    # Five test parts of 20 of 50 examples: their variance is σ²/20 (1 − 20/50), that of the mean
    # over the parts σ²/50 more than a fifth of it. The correction (1/5 + 20/30) gives just that.
    rng, covered = np.random.default_rng(0), []
    for _ in range(400):
        losses = (rng.random(50) < 0.3).astype(float)
        parts = row([losses[rng.permutation(50)[:20]] for _ in range(5)])
        _, low, high = score_interval(parts, ACCURACY, has_fixed_test=False)
        covered.append(low <= 70.0 <= high)
    # 1.1 % is the standard error of 400 draws at 95 %
    assert np.mean(covered) == pytest.approx(0.95, abs=3 * 0.011)


@pytest.mark.parametrize("n", [3, 24])
def test_splits_of_few_examples_are_told_apart_as_rarely_as_the_interval_says(n):
    rng, told = np.random.default_rng(n), 0
    tested = max(1, round(n / 5))
    for losses in rng.standard_normal((400, 2, n)) ** 2:
        parts = [rng.permutation(n)[:tested] for _ in range(5)]
        rows = [row([own[part] for part in parts], n - tested) for own in losses]
        _, low, high = paired_interval(*rows, RMSE, has_fixed_test=False)
        told += low > 0 or high < 0
    assert told <= 0.06 * 400
