"""Whether one model beats another over subjects: Wilcoxon's signed-rank test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from representer.errors import ArgumentError

_DIGITS = 9  # of a difference: those that differ by rounding are ties
_EXACT = 15  # subjects up to which all signs are tried, so that ties do no harm


def paired_over_subjects(ours: Mapping[str, float], theirs: Mapping[str, float]) -> dict[str, Any]:
    """Compare the accuracies of two models subject by subject.

    Windows of a subject resemble each other; subjects are what was drawn at random, so the test is
    over them. Those on which both are level say nothing and are left out of it.

    Args:
        ours: Accuracy by subject.
        theirs: Likewise, of the same subjects.

    Returns:
        ``mean`` difference, ``better``, ``worse`` and ``equal`` counts of subjects, and ``p`` of
        the two-sided test; 1 where no subject differs.

    Raises:
        ArgumentError: If the subjects are not the same.
    """
    if ours.keys() != theirs.keys() or not ours:
        raise ArgumentError("theirs", sorted(theirs), f"the subjects {', '.join(sorted(ours))}")
    d = np.asarray([round(ours[subject] - theirs[subject], _DIGITS) for subject in ours])
    return {
        "mean": float(d.mean()),
        "better": int((d > 0).sum()),
        "worse": int((d < 0).sum()),
        "equal": int((d == 0).sum()),
        "p": _p_value(d[d != 0]),
    }


def _p_value(d: np.ndarray) -> float:
    from scipy.stats import PermutationMethod, wilcoxon

    if not len(d):
        return 1.0
    is_small = len(d) <= _EXACT
    method: Any = PermutationMethod(n_resamples=2**_EXACT) if is_small else "asymptotic"
    found: Any = wilcoxon(d, method=method)
    return float(found.pvalue)
