from __future__ import annotations

import pytest

from representer.report.summary import (
    ACCURACY,
    PERPLEXITY,
    RMSE,
    chance_sentence,
    parts_sentence,
    standing,
)  # fmt: skip

ON = "300 test documents"


@pytest.mark.parametrize(
    ("difference", "measure", "relation"),
    [
        ((0.02, 0.01, 0.03), ACCURACY, "ahead of"), ((0.02, -0.01, 0.05), ACCURACY, "level with"),
        ((-0.02, -0.03, -0.01), ACCURACY, "behind"), ((0.0, 0.0, 0.0), ACCURACY, "level with"),
        ((-0.2, -0.3, -0.1), RMSE, "ahead of"), ((0.2, 0.1, 0.3), RMSE, "behind"),
        ((-9.0, -12.0, 1.0), PERPLEXITY, "level with"),
    ],
)  # fmt: skip
def test_only_an_interval_without_zero_puts_a_model_ahead_or_behind(difference, measure, relation):
    found = standing("M", {"B": difference}, measure, ON)
    assert (found["relation"], found["baseline"]) == (relation, "B")
    assert found["difference"] == list(difference)


def test_the_sentence_is_about_the_best_baseline_and_says_what_to_use_instead():
    others = {"A": (0.3, 0.2, 0.4), "B": (-0.02, -0.03, -0.01), "C": (0.01, 0.0, 0.02)}
    assert standing("M", others, ACCURACY, ON)["sentence"] == (
        "On 300 test documents, M is behind the best baseline, B (-2.0 points, 95 % interval -3.0 "
        "to -1.0): use B instead."
    )
    errors = {"A": (-0.3, -0.4, -0.2), "B": (-0.1, -0.2, -0.05)}
    assert standing("M", errors, RMSE, ON)["sentence"] == (
        "On 300 test documents, M is ahead of the best baseline, B (RMSE -0.1, 95 % interval -0.2 "
        "to -0.05)."
    )
    assert (
        "is level with C (perplexity -1.00, 95 % interval -2.00 to +0.50)."
        in (standing("M", {"C": (-1.0, -2.0, 0.5)}, PERPLEXITY, ON)["sentence"])
    )
    assert standing("M", {}, RMSE, ON) == {}


def test_of_equally_good_baselines_the_constant_guess_counts_and_all_are_named():
    even, worse = (0.0, -0.02, 0.02), (0.1, 0.05, 0.15)
    found = standing("M", {"A": even, "B": worse, "C": even, "majority class": even}, ACCURACY, ON)
    assert found["baseline"] == "majority class"
    assert found["sentence"] == (
        "On 300 test documents, M is level with the best baselines, A, C and majority class (+0.0 "
        "points, 95 % interval -2.0 to +2.0)."
    )


@pytest.mark.parametrize(("count", "relation"), [(1, "too few to tell"), (5, "too few to tell"),
                                                 (6, "behind")])  # fmt: skip
def test_fewer_than_six_objects_are_too_few_to_tell(count, relation):
    found = standing("M", {"B": (-0.5, -0.9, -0.1)}, ACCURACY, f"{count} test graphs", count)
    assert found["relation"] == relation
    if count == 5:
        assert found["sentence"] == (
            "On 5 test graphs, M is not told apart from B (-50.0 points): too few to tell; it "
            "takes 6."
        )


def test_the_shares_and_times_of_parts_are_named_and_so_is_a_dropped_one():
    kernel, network = {"share": 0.375, "seconds": 2.04}, {"share": 0.625, "seconds": 50.0}
    assert parts_sentence({"kernel": kernel, "network": network}) == (
        "38 % of the spread of the scores comes from the kernel (trained in 2.0 s), 62 % from the "
        "network (trained in 50.0 s)."
    )
    dropped = {"kernel": {"share": 1.0, "seconds": None}, "network": {"share": 0.0, "seconds": 9}}
    assert parts_sentence(dropped) == (
        "The network (trained in 9.0 s) added nothing on the validation data and was dropped."
    )
    assert parts_sentence({"network": network}) == ""


def test_a_model_like_the_constant_guess_is_not_praised():
    classes = [{"label": "ham", "support": 90}, {"label": "spam", "support": 10}]
    even = {"count": 100, "accuracy_interval": [0.83, 0.95], "per_class": classes}
    assert chance_sentence(even) == (
        "Always answering 'ham' is right for 90.0 %; the model is not clearly better than that."
    )
    better = even | {"accuracy_interval": [0.93, 0.99]}
    assert chance_sentence(better) == "Always answering 'ham' is right for 90.0 %."
    assert chance_sentence({"rmse": 1.0}) == ""
