"""Compare two models over subjects with Wilcoxon's signed-rank test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from representer.errors import ArgumentError
from representer.report.metrics import extended, t_quantile

_DIGITS = 9  # differences by rounding errors are ties
_EXACT = 15  # up to so many subjects, all signs are enumerated, which is exact with ties


def paired_over_subjects(
    model: Mapping[str, float], baseline: Mapping[str, float]
) -> dict[str, Any]:
    """Compare the accuracies of two models subject by subject.

    The windows of a subject are dependent, so the test is over subjects. Subjects without a
    difference are left out of the test.

    Args:
        model: Accuracy of the model by subject.
        baseline: Accuracy of the baseline by subject, for the same subjects.

    Returns:
        ``mean`` difference, its 95 % ``interval`` by Student's t, extended to 0 unless the test
        rejects, numbers of subjects ``better``, ``worse`` and ``equal``, and ``p`` of the two-sided
        test; 1 if no subject differs. The interval of a single subject is all that accuracies
        allow.

    Raises:
        ArgumentError: If the subjects are not the same.
    """
    if model.keys() != baseline.keys() or not model:
        raise ArgumentError(
            "baseline", sorted(baseline), f"the subjects {', '.join(sorted(model))}"
        )
    d = np.asarray([round(model[subject] - baseline[subject], _DIGITS) for subject in model])
    p = _p_value(d[d != 0])
    return {
        "mean": float(d.mean()),
        "interval": list(extended(*_interval(d), p)),
        "better": int((d > 0).sum()),
        "worse": int((d < 0).sum()),
        "equal": int((d == 0).sum()),
        "p": p,
    }


def _interval(d: np.ndarray) -> tuple[float, float]:
    if len(d) < 2:
        return -1.0, 1.0
    half = t_quantile(len(d)) * float(d.std(ddof=1)) / len(d) ** 0.5
    return float(d.mean()) - half, float(d.mean()) + half


def _p_value(d: np.ndarray) -> float:
    from scipy.stats import PermutationMethod, wilcoxon

    if len(d) < 2:  # both signs of one difference are equally extreme
        return 1.0
    is_small = len(d) <= _EXACT
    method: Any = PermutationMethod(n_resamples=2**_EXACT) if is_small else "asymptotic"
    result: Any = wilcoxon(d, method=method)
    return float(result.pvalue)
