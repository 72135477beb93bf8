"""Many cases of a test in one item, since an item of its own costs more than a short test."""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch

Test = Callable[..., None]


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
            error.add_note(", ".join(f"{name}={value!r}" for name, value in case.items()))
            raise
    if len(skipped) == len(cases):
        pytest.skip(skipped[0] if skipped else "no cases")
