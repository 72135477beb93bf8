"""Comparison of a model with the best baseline, and shares of its parts, in one sentence each.

Free of any task: each passes the paired differences in its own measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from representer.report.metrics import FEWEST

AHEAD, LEVEL, BEHIND, TOO_FEW = "ahead of", "level with", "behind", "too few to tell"


class Measure(NamedTuple):
    """The kind of a difference, and its format.

    Attributes:
        form: Format of a difference, with its unit.
        number: Format of a bound of its interval.
        factor: Of the numbers that are shown.
        is_error: True if smaller is better.
    """

    form: str
    number: str = "{:+.3g}"
    factor: float = 1.0
    is_error: bool = True


ACCURACY = Measure("{:+.1f} points", "{:+.1f}", 100.0, is_error=False)
RMSE = Measure("RMSE {:+.3g}")
PERPLEXITY = Measure("perplexity {:+.2f}", "{:+.2f}")


def standing(
    model: str, differences: Mapping[str, Sequence[float]], measure: Measure, tested_on: str,
    count: int = FEWEST,
) -> dict[str, Any]:  # fmt: skip
    """Compare a model with the best of its baselines.

    The model is "ahead of" or "behind" it where the 95 % interval of the paired difference excludes
    0, and "level with" it otherwise. Fewer than `FEWEST` independent objects are "too few to tell".

    Args:
        model: Its name.
        differences: By baseline, the model's result minus that of the baseline, and the lower and
            the upper bound of the 95 % interval, all from pairs of results on the same data. Of
            equally good baselines the last one counts, so the constant guess comes last.
        measure: What the differences are of.
        tested_on: The data, for the sentence: "760 test documents".
        count: Number of independent test objects.

    Returns:
        ``relation``, ``baseline``, ``difference`` and ``sentence``, as in metrics.json; nothing
        without baselines.
    """
    if not differences:
        return {}
    sign = 1 if measure.is_error else -1
    largest = max(sign * own[0] for own in differences.values())
    tied = [name for name, own in differences.items() if sign * own[0] == largest]
    best = tied[-1]
    difference, low, high = (float(number) for number in differences[best])
    is_ahead, is_behind = (high < 0, low > 0) if measure.is_error else (low > 0, high < 0)
    relation = AHEAD if is_ahead else BEHIND if is_behind else LEVEL
    bounds = " to ".join(measure.number.format(measure.factor * bound) for bound in (low, high))
    found = measure.form.format(measure.factor * difference)
    names = " and ".join(filter(None, (", ".join(tied[:-1]), best)))
    which = f"the best baseline{'s' * (len(tied) > 1)}, {names}" if len(differences) > 1 else best
    advice = f": use {best} instead" if is_behind else ""
    sentence = f"On {tested_on}, {model} is {relation} {which} ({found}, 95 % interval {bounds})"
    if count < FEWEST:
        relation, advice = TOO_FEW, f"; it takes {FEWEST}"
        sentence = (
            f"On {tested_on}, {model} is not told apart from {which} ({found}): too few to tell"
        )
    return {
        "relation": relation,
        "baseline": best,
        "difference": [difference, low, high],
        "sentence": f"{sentence}{advice}.",
    }


def chance(test: Mapping[str, Any]) -> tuple[str, float, bool]:
    """Return the commonest class, how often it is right, and whether a model is clearly better."""
    counts = {own["label"]: own["support"] for own in test["per_class"]}
    commonest = max(counts, key=lambda label: counts[label])
    share = counts[commonest] / test["count"]
    return commonest, share, test["accuracy_interval"][0] > share


def chance_sentence(test: Mapping[str, Any]) -> str:
    """Return how often the commonest class is right, and whether a model is better than that."""
    if not test.get("per_class"):
        return ""
    commonest, share, is_better = chance(test)
    ending = "" if is_better else "; the model is not clearly better than that"
    return f"Always answering {commonest!r} is right for {100 * share:.1f} %{ending}."


def parts_sentence(parts: Mapping[str, Mapping[str, float | None]]) -> str:
    """Return a sentence on the shares and the times of the parts of a model, if it has several.

    Args:
        parts: ``share`` and ``seconds`` of each part by its name, as in metrics.json; a part with
            the share 0 was dropped.
    """
    if len(parts) < 2:
        return ""
    kept = {name: part for name, part in parts.items() if part["share"]}
    shares = [
        f"{100 * (part['share'] or 0):.0f} % {{}}from the {name}{_time(part)}"
        for name, part in kept.items()
    ]
    origin = [one.format("" if k else "of the spread of the scores comes ")
              for k, one in enumerate(shares)]  # fmt: skip
    sentences = [", ".join(origin) + "."] if len(kept) > 1 else []
    sentences += [
        f"The {name}{_time(part)} added nothing on the validation data and was dropped."
        for name, part in parts.items()
        if name not in kept
    ]
    return " ".join(sentences)


def _time(part: Mapping[str, float | None]) -> str:
    return "" if part["seconds"] is None else f" (trained in {part['seconds']:.1f} s)"
