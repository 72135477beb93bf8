"""An estimator whose kernel machine and network both predict, and the sums of explanations."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest


def with_both(estimator: Any) -> Any:
    """Return a fitted estimator with equal weights of its halves.

    On data of a few different objects, the stack may keep one half alone.
    """
    both = copy.copy(estimator)
    both.targets_ = tuple(
        replace(target, pool=replace(target.pool, kernel=0.6, network=0.7, share=0.5))
        for target in estimator.targets_
    )
    return both


def assert_sums(explanation: Any, **tolerance: float) -> None:
    """Require that contributions and baseline sum to the score; relative to 1e-6 by default."""
    total = explanation.baseline + sum(one.contribution for one in explanation.contributions)
    assert total == pytest.approx(explanation.score, **tolerance)
