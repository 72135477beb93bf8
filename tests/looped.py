"""Many cases of a test in one item, since an item of its own costs more than a short test."""

from __future__ import annotations

import functools
import inspect
import itertools
import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch

Test = Callable[..., None]
_ParameterSet = type(pytest.param())


def seed() -> None:
    """Set the seeds that every case starts with."""
    random.seed(0)
    np.random.seed(0)
    torch.default_generator.manual_seed(0)  # torch.manual_seed also records the stack for a GPU


def looped(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test over values of its arguments, as ``pytest.mark.parametrize`` does in many items.

    A failure names its case. A case that the test skips does not end the others.
    """
    listed = (names,) if isinstance(names, str) else names
    rows = [(value,) if isinstance(names, str) else value for value in values]
    cases = [dict(zip(listed, row, strict=True)) for row in rows]
    return lambda test: replaced(test, listed, (), lambda given: run_cases(test, cases, given))


def replaced(
    test: Test,
    names: tuple[str, ...],
    others: tuple[str, ...],
    run: Callable[[dict[str, Any]], None],
) -> Test:
    """Return a test that takes ``others`` instead of ``names``; ``run`` gets its arguments."""

    def wrapper(**given: Any) -> None:
        run(given)

    functools.update_wrapper(wrapper, test)
    signature = inspect.signature(test)
    kept = [p for p in signature.parameters.values() if p.name not in names]
    added = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in others]
    wrapper.__signature__ = signature.replace(parameters=kept + added)  # type: ignore  # for pytest
    return wrapper


def run_cases(test: Test, cases: list[dict[str, Any]], given: dict[str, Any]) -> None:
    """Run a test on each case, all with the same seed."""
    skipped: list[str] = []
    for case in cases:
        seed()
        try:
            test(**given, **case)
        except pytest.skip.Exception as reason:
            skipped.append(str(reason))
        except BaseException as error:
            error.add_note(_text(case))
            raise
    if len(skipped) == len(cases):
        pytest.skip(skipped[0] if skipped else "no cases")


CASES = 40  # in an item at most, so that the workers can share the cases of a long table


def merged(collector: pytest.Collector, name: str, test: Test) -> list[pytest.Function] | None:
    """Return items of many cases each for a parametrized test, or None if each case needs its own.

    Cases share an item if the test takes no fixture but those that live longer than a test. A case
    with a mark of its own stays an item of its own.
    """
    marks = [m for m in getattr(test, "pytestmark", []) if m.name == "parametrize"]
    if not marks or any(m.kwargs.get("indirect") for m in marks):
        return None
    rows: list[list[tuple[dict[str, Any], Any]]] = []
    names: tuple[str, ...] = ()
    for mark in marks:  # the last decorator is the outermost loop, as in pytest
        argument_names, values = mark.args
        listed = argument_names
        if isinstance(listed, str):
            listed = [word.strip() for word in listed.split(",") if word.strip()]
        names += tuple(listed)
        rows.append([_case(listed, value) for value in values])
    fixtures = set(inspect.signature(test).parameters) - set(names)
    manager = collector.session._fixturemanager
    fixtures |= {name for mark in collector.iter_markers("usefixtures") for name in mark.args}
    fixtures |= {name for mark in getattr(test, "pytestmark", []) if mark.name == "usefixtures"
                 for name in mark.args}  # fmt: skip
    for fixture in manager._getautousenames(collector):  # those of all tests run for each item
        definitions = manager.getfixturedefs(fixture, collector) or ()
        if any(d.baseid not in ("", "tests") for d in definitions):
            fixtures.add(fixture)
    for fixture in fixtures:
        definitions = manager.getfixturedefs(fixture, collector)
        if not definitions or any(d.scope == "function" or d.params for d in definitions):
            return None
    plain: list[dict[str, Any]] = []
    items = []
    for row in itertools.product(*rows):
        case = {key: value for values, _ in row for key, value in values.items()}
        if own := [mark for _, each in row for mark in each]:
            items.append(_item(collector, f"{name}[{_text(case)}]", test, names, [case], own))
        else:
            plain.append(case)
    for start in range(0, len(plain), CASES):
        cases = plain[start : start + CASES]
        label = name if len(plain) <= CASES else f"{name}[{start} to {start + len(cases) - 1}]"
        items.append(_item(collector, label, test, names, cases))
    return items


def _case(names: list[str], value: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
    if isinstance(value, _ParameterSet):
        return dict(zip(names, value.values, strict=True)), tuple(value.marks)
    return dict(zip(names, (value,) if len(names) == 1 else value, strict=True)), ()


def _text(case: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in case.items())


def _item(
    collector: pytest.Collector,
    name: str,
    test: Test,
    names: tuple[str, ...],
    cases: list[dict[str, Any]],
    marks: Iterable[Any] = (),
) -> pytest.Function:
    run = replaced(test, names, (), lambda given: run_cases(test, cases, given))
    item = pytest.Function.from_parent(collector, name=name, callobj=run)
    for mark in marks:
        item.add_marker(mark)
    return item
