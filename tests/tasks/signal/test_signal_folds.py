"""Folds: every subject is tested once, stands on one side, and every class can be learned."""

from __future__ import annotations

import numpy as np
import pytest

from representer.data.signals import recordings
from representer.errors import ArgumentError, DataError
from representer.tasks.objects import Fold
from representer.tasks.signal.data import final_fold, folds_of

NAMES = [f"s{k}" for k in range(10)]


def made(classes=lambda subject: ("a", "b"), subjects=tuple(NAMES)):
    """Two windows of each subject."""
    labels = [label for k in range(len(subjects)) for label in classes(k)]
    who = np.repeat(subjects, 2)
    return recordings(np.ones((len(who), 1, 4)), labels, who, 10)


def of_one_class(subject: int):
    return ("ab"[subject % 2],) * 2


def plans(of):
    return {
        "one": folds_of(of, 0.2, 0),
        "groups": folds_of(of, 0.2, 0, count=3),
        "named": folds_of(of, 0.2, 0, tested=["s3", "s4"]),
        "final": [final_fold(of, 0.2, 0)],
    }


@pytest.mark.parametrize("classes", [lambda subject: ("a", "b"), of_one_class])
def test_every_subject_stands_on_exactly_one_side(classes):
    for folds in plans(made(classes)).values():
        for fold in folds:
            assert sorted((*fold.train, *fold.valid, *fold.test)) == NAMES


def test_leaving_one_out_tests_each_subject_once():
    assert [fold.test for fold in folds_of(made(), 0.2, 0)] == [(name,) for name in NAMES]


def test_leaving_groups_out_tests_each_subject_once():
    folds = folds_of(made(), 0.2, 0, count=3)
    assert sorted(name for fold in folds for name in fold.test) == NAMES
    assert sorted(len(fold.test) for fold in folds) == [3, 3, 4]


def test_the_model_that_is_kept_tests_nobody():
    assert final_fold(made(), 0.2, 0).test == ()


@pytest.mark.parametrize(("share", "count"), [(0.01, 1), (0.2, 2), (0.5, 4), (0.99, 8)])
def test_a_share_of_the_training_subjects_says_when_to_stop(share, count):
    for fold in folds_of(made(), share, 0):
        assert len(fold.valid) == count


def test_who_stops_changes_from_fold_to_fold_and_with_the_seed_alone():
    first, again, other = (folds_of(made(), 0.2, seed) for seed in (0, 0, 1))
    assert first == again
    assert len({fold.valid for fold in first}) > 3
    assert [fold.valid for fold in first] != [fold.valid for fold in other]


def test_where_subjects_have_one_class_each_all_classes_say_when_to_stop():
    of = made(of_one_class)
    kind = {name: of_one_class(k)[0] for k, name in enumerate(NAMES)}
    for fold in [*folds_of(of, 0.05, 0), *folds_of(of, 0.05, 0, count=5)]:
        assert {kind[name] for name in fold.valid} == {"a", "b"}
    for fold in folds_of(of, 0.05, 0, count=5):
        assert {kind[name] for name in fold.test} == {"a", "b"}


def test_of_a_fraction_of_0_all_others_are_trained_on():
    of = made()
    for folds in (folds_of(of, 0, 0), folds_of(of, 0, 0, count=3), [final_fold(of, 0, 0)]):
        for fold in folds:
            assert fold.valid == ()
            assert sorted((*fold.train, *fold.test)) == NAMES
    assert [f.test for f in folds_of(of, 0, 0, count=3)] == [
        f.test for f in folds_of(of, 0.2, 0, count=3)
    ]
    assert folds_of(made(subjects=("s", "t")), 0, 0)[0].train == ("t",)
    with pytest.raises(DataError, match=r"expected at least 1\. One is .* Sessions of"):
        folds_of(made(subjects=("s",)), 0, 0)


def test_no_validation_subject_is_the_last_one_of_a_class():
    of = made(lambda subject: ("a", "b") if subject in (0, 1) else ("a", "a"))
    for seed in range(20):
        for fold in folds_of(of, 0.5, seed):
            assert set(fold.train) & {"s0", "s1"}


def test_a_class_that_the_training_side_lacks_is_reported_with_the_fold():
    of = made(lambda subject: ("a", "b") if subject else ("a", "c"))
    expected = r"the training subjects of fold 's0' have no window of c\. Add subjects"
    with pytest.raises(DataError, match=expected):
        folds_of(of, 0.2, 0)


def test_three_subjects_are_needed():
    assert folds_of(made(subjects=("s", "t", "u")), 0.2, 0)[0].test == ("s",)
    with pytest.raises(DataError, match="there are 1 subjects besides the test subjects; exp"):
        folds_of(made(subjects=("s", "t")), 0.2, 0)


def test_an_unknown_subject_is_reported_with_the_known_ones():
    with pytest.raises(
        DataError, match=r"a\.npz: there is no subject nobody; the subjects are s0, s1,"
    ):
        folds_of(made(), 0.2, 0, tested=["s0", "nobody"], file="a.npz")


@pytest.mark.parametrize("count", [1, 11])
def test_more_groups_than_subjects_are_refused(count):
    with pytest.raises(ArgumentError, match=f"folds is {count}; expected 0, or 2 to 10"):
        folds_of(made(), 0.2, 0, count=count)


@pytest.mark.parametrize(
    "sides",
    [
        (("s", "t"), ("s",), ("u",)),
        (("s", "t"), ("v",), ("t",)),
        (("s",), ("v",), ("u", "v")),
    ],
)
def test_a_subject_on_two_sides_is_refused(sides):
    with pytest.raises(ArgumentError, match=r"group is '\w'; expected a group in one part only"):
        Fold("planted", *sides)


def test_training_without_anybody_is_refused():
    with pytest.raises(ArgumentError, match="expected at least one group in fold 'empty'"):
        Fold("empty", (), ("s",), ("u",))


def test_the_windows_of_a_side_are_those_of_its_subjects():
    fold = Fold("f", ("s1", "s3"), ("s0",), ("s2",))
    rows = fold.parts(made().subjects)
    assert {side: numbers.tolist() for side, numbers in rows.items()} == {
        "train": [2, 3, 6, 7], "valid": [0, 1], "test": [4, 5]
    }  # fmt: skip
