"""Cases of a test that share an item."""

from __future__ import annotations

import pytest

from looped import CASES, merged


@pytest.mark.parametrize("count", [1, CASES, CASES + 1])
def test_every_case_of_a_table_runs_and_the_first_that_fails_is_named(
    count: int, request: pytest.FixtureRequest
):
    seen: list[tuple[int, str]] = []

    @pytest.mark.parametrize("number", [*range(count), pytest.param(-1, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("word", ["a"])
    def test(number: int, word: str):
        seen.append((number, word))
        assert number < count - 1

    slow, *items = merged(request.node.parent, "test", test) or ()
    assert len(items) == 1 + (count > CASES)
    assert slow.get_closest_marker("slow")
    assert not items[0].get_closest_marker("slow")
    for item in (slow, *items[:-1]):
        item.obj()
    with pytest.raises(AssertionError) as error:
        items[-1].obj()
    assert seen == [(-1, "a"), *((number, "a") for number in range(count))]
    assert error.value.__notes__ == [f"word='a', number={count - 1}"]


def test_cases_with_a_fixture_of_each_test_have_items_of_their_own(request: pytest.FixtureRequest):
    @pytest.mark.parametrize("number", [1, 2])
    def test(number: int, tmp_path: object): ...

    assert merged(request.node.parent, "test", test) is None
