"""The first screen of a report: the answer, its figures, whether to trust it, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from representer.report.metrics import (
    FEWEST,
    calibration_error_by_chance,
    percent,
    points,
    rounded,
    signed,
    wilson_interval,
)

# A card of the first screen of a report.


class Card(NamedTuple):
    """A figure with its meaning."""

    label: str  # the question that it answers
    figure: str
    text: str  # what it is, with its interval
    shares: tuple[tuple[str, float], ...] = ()  # names and sizes of the parts of a bar
    tone: str = ""  # ``"good"``, ``"bad"`` or nothing


# Comparison of a model with the best baseline, and shares of its parts, in one sentence each.
#
# Free of any task: each passes the paired differences in its own measure.

AHEAD, LEVEL, BEHIND, TOO_FEW = "ahead of", "level with", "behind", "too few to tell"


class Measure(NamedTuple):
    """The kind of a difference, and its format."""

    form: str  # format of a difference, with its unit
    number: str = "{:+.3g}"  # format of a bound of its interval
    factor: float = 1.0  # of the numbers that are shown
    is_error: bool = True  # True if smaller is better


ACCURACY = Measure("{:+.1f} points", "{:+.1f}", 100.0, is_error=False)
RMSE = Measure("RMSE {:+.3g}")
PERPLEXITY = Measure("perplexity {:+.2f}", "{:+.2f}")


def standing(
    model: str, differences: Mapping[str, Sequence[float]], measure: Measure, tested_on: str,
    count: int = FEWEST, unit: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Compare a model with the best of its baselines.

    The model is "ahead of" or "behind" it where the 95 % interval of the paired difference excludes
    0, and "level with" it otherwise. Fewer than `FEWEST` independent objects are "too few to tell".
    ``differences`` has, by baseline, the model's result minus that of the baseline and the bounds
    of its interval, all from pairs of results on the same data; of equally good baselines the last
    one counts, so the constant guess comes last. ``count`` is the number of independent test
    objects or, with a ``unit``, of groups of them. Returned are ``relation``, ``baseline``,
    ``difference`` and ``sentence``, as in metrics.json; nothing without baselines.
    """
    if not differences:
        return {}
    sign = 1 if measure.is_error else -1
    largest = max(sign * difference[0] for difference in differences.values())
    tied = [name for name, difference in differences.items() if sign * difference[0] == largest]
    best = tied[-1]
    difference, low, high = (float(number) for number in differences[best])
    is_ahead, is_behind = (high < 0, low > 0) if measure.is_error else (low > 0, high < 0)
    relation = AHEAD if is_ahead else BEHIND if is_behind else LEVEL
    bounds = " to ".join(measure.number.format(measure.factor * bound) for bound in (low, high))
    shown = measure.form.format(measure.factor * difference)
    names = " and ".join(filter(None, (", ".join(tied[:-1]), best)))
    which = f"the best baseline{'s' * (len(tied) > 1)}, {names}" if len(differences) > 1 else best
    advice = f": use {best} instead" if is_behind else ""
    sentence = f"On {tested_on}, {model} is {relation} {which} ({shown}, 95 % interval {bounds})"
    if count < FEWEST:
        relation, advice = TOO_FEW, f"; it takes {FEWEST}{unit}"
        sentence = (
            f"On {tested_on}, {model} is not told apart from {which} ({shown}): too few to tell"
        )
    return {
        "relation": relation,
        "baseline": best,
        "difference": [difference, low, high],
        "sentence": f"{sentence}{advice}.",
    }


def chance(test: Mapping[str, Any]) -> tuple[str, float, bool]:
    """Return the commonest class, how often it is right, and whether a model is clearly better."""
    counts = {row["label"]: row["support"] for row in test["per_class"]}
    commonest = max(counts, key=lambda label: counts[label])
    share = counts[commonest] / test["count"]
    return commonest, share, test["accuracy_interval"][0] > share


def chance_sentence(test: Mapping[str, Any]) -> str:
    """Return how often the commonest class is right, and whether a model is better than that.

    Of two classes, it names one that a model never answers: its accuracy does not show that.
    """
    if not test.get("per_class"):
        return ""
    commonest, share, is_better = chance(test)
    ending = "" if is_better else "; the model is not clearly better than that"
    sentence = f"Always answering {commonest!r} is right for {100 * share:.1f} %{ending}."
    table, rows = test.get("confusion") or (), test["per_class"]
    answers = [sum(column) for column in zip(*table, strict=True)] if len(rows) == 2 else ()
    for row, count in zip(rows, answers, strict=False):
        if row["support"] and not count:
            sentence += f" The model never answers {row['label']!r}, which {row['support']} are."
    return sentence


def parts_sentence(parts: Mapping[str, Mapping[str, float | None]]) -> str:
    """Return a sentence on the shares and the times of the parts of a model, if it has several.

    A part with the share 0 was dropped.
    """
    if len(parts) < 2:
        return ""
    kept = {name: half for name, half in parts.items() if half["share"]}
    shares = [
        f"{100 * (half['share'] or 0):.0f} % {{}}from the {name}{_time(half)}"
        for name, half in kept.items()
    ]
    origin = [share.format("" if k else "of the spread of the scores comes ")
              for k, share in enumerate(shares)]  # fmt: skip
    sentences = [", ".join(origin) + "."] if len(kept) > 1 else []
    sentences += [
        f"The {name}{_time(half)} added nothing on the validation data and was dropped."
        for name, half in parts.items()
        if name not in kept
    ]
    return " ".join(sentences)


def _time(part: Mapping[str, float | None]) -> str:
    return "" if part["seconds"] is None else f" (trained in {part['seconds']:.1f} s)"


# Probabilities, intervals and surprise that a model states, compared with the test part.

YES, OVER, UNDER, ON_AVERAGE = "Yes", "Overconfident", "Underconfident", "On average only"
GUESS = "Not beyond chance"
NOTABLE = 0.02  # a smaller gap between confidence and accuracy has no consequence
NOTABLE_ERROR = 0.05  # a smaller calibration error has none


def trust_in_classes(test: Mapping[str, Any]) -> Card:
    """Compare confidence and accuracy, on average and in each bin, and accuracy and chance."""
    bins, (low, high) = test["calibration"]["bins"], test["accuracy_interval"]
    sure = sum(row["count"] * row["confidence"] for row in bins) / test["count"]
    gap = sure - test["accuracy"]
    is_fine = low <= sure <= high or abs(gap) < NOTABLE
    verdict = YES if is_fine else OVER if gap > 0 else UNDER
    error, by_chance = test["calibration"]["error"], calibration_error_by_chance(bins)
    text = (
        f"it is {percent(sure, 0)} sure on average, and right in {percent(test['accuracy'], 0)}; "
        f"calibration error {percent(error)}"
    )
    if is_fine and error > max(NOTABLE_ERROR, by_chance):
        text += f", where exact probabilities would have less than {percent(by_chance)}"
        verdict = ON_AVERAGE
    commonest, share, is_better = chance(test)
    if is_fine and not is_better:
        text += f"; always answering {commonest!r} is right for {percent(share, 0)}"
        verdict = GUESS
    return _trust(verdict, text)


def trust_in_intervals(test: Mapping[str, Any]) -> Card | None:
    """Compare the coverage of the 95 % intervals with 95 %."""
    if "coverage" not in test:
        return None
    held = test["coverage"]["0.95"]
    count = test.get("independent", test["count"])
    low, high = wilson_interval(held * count, count)
    verdict = OVER if high < 0.95 else UNDER if low > 0.95 else YES
    return _trust(verdict, f"its 95\u202f% intervals contain {percent(held, 0)} of the true values")


def trust_in_surprise(test: Mapping[str, Any]) -> Card | None:
    """Compare the surprise that a model expects with the one that it has, in bits per token."""
    if "expected_bits" not in test:
        return None
    low, high = test["surprise_interval"]
    verdict = OVER if low > 0 else UNDER if high < 0 else YES
    return _trust(
        verdict,
        f"it expects a surprise of {test['expected_bits']:.2f} bits per token and has "
        f"{test['expected_bits'] + test['surprise']:.2f}; 95\u202f% interval of the difference "
        f"{signed(low, 2)} to {signed(high, 2)}",
    )


def _trust(verdict: str, text: str) -> Card:
    tone = {YES: "good", OVER: "bad", ON_AVERAGE: "bad", GUESS: "bad"}.get(verdict, "")
    return Card("Can its certainty be trusted?", verdict, text, tone=tone)


class NextStep(NamedTuple):
    """Advice, and the command or code that follows it."""

    text: str
    code: str = ""


class Screen(NamedTuple):
    """The first screen; see `Card` and `NextStep`."""

    answer: str
    cards: Sequence[Card]
    steps: Sequence[NextStep]


class _Beside(NamedTuple):
    """The best baseline, and how the model compares with it."""

    row: Mapping[str, Any]
    relation: str
    difference: float  # of the results


def of_classes(run: Any, targets: Sequence[Mapping[str, Any]]) -> Screen:
    """Return the first screen of a classification of objects."""
    if not targets:
        return _untested(run)
    test, name = targets[0]["test"], targets[0]["name"]
    what = f" about {name}" if name else ""
    right = percent(test["accuracy"])
    claim = f"{_who(run)} is right{what} for {right} of the test {run.details['nouns']}"
    beside = _best(targets[0]["baselines"], run.metrics, name)
    shown = [
        *_results(targets, "accuracy", "accuracy", percent),
        *_beside(beside, lambda row: percent(row["accuracy"]), _in_points),
    ]
    return _screen(run, claim, beside, shown, trust_in_classes(test))


def of_numbers(run: Any, targets: Sequence[Mapping[str, Any]]) -> Screen:
    """Return the first screen of a regression of objects."""
    if not targets:
        return _untested(run)
    test, name = targets[0]["test"], targets[0]["name"]
    what = f" of {name}" if name else ""
    claim = (
        f"The predictions{what} are {rounded(test['mae'], 2)} away from the true value on average "
        f"(root mean square {rounded(test['rmse'])})"
    )
    beside = _best(targets[0]["baselines"], run.metrics, name)

    def difference(row: Mapping[str, Any]) -> str:
        middle, low, high = (_signed(bound) for bound in row["difference"])
        return f"difference of the RMSE {middle}, 95\u202f% interval {low} to {high}"

    shown = [
        *_results(targets, "rmse", "RMSE", rounded),
        *_beside(beside, lambda row: rounded(row["rmse"]), difference),
    ]
    return _screen(run, claim, beside, shown, trust_in_intervals(test), is_error=True)


def _results(
    targets: Sequence[Mapping[str, Any]], key: str, name: str, form: Callable[[float], str]
) -> list[Card]:
    """Return the card of the result of each target, with its interval."""
    cards = []
    for target in targets:
        of = f" of {target['name']}" if target["name"] else ""
        low, high = (form(bound) for bound in target["test"][f"{key}_interval"])
        text = f"test {name}{of}; 95\u202f% interval {low} to {high}"
        cards.append(Card("Result", form(target["test"][key]), text))
    return cards


def of_subjects(run: Any) -> Screen:
    """Return the first screen of a classification of recordings of left-out subjects."""
    metrics = run.metrics
    count = len(metrics["by_subject"])
    text = (
        f"mean accuracy over {count} subjects, each left out of its training; standard deviation "
        f"{100 * metrics['deviation']:.1f} points"
    )
    claim = (
        f"{_who(run)}, on subjects that it has not seen, is right in "
        f"{percent(metrics['mean'])} of the windows"
    )
    beside = _best(metrics["baselines"], metrics, None)

    def difference(row: Mapping[str, Any]) -> str:
        difference = row["difference"]
        return _in_points({"difference": (difference["mean"], *difference["interval"])})

    shown = _beside(beside, lambda row: percent(row["mean"]), difference)
    cards = [Card("Result", percent(metrics["mean"]), text), *shown]
    return _screen(run, claim, beside, cards, trust_in_classes(metrics["test"]))


def of_text(run: Any) -> Screen:
    """Return the first screen of a language model."""
    test, metrics = run.metrics["test"], run.metrics
    if not test:
        return _untested(run)
    token = "character" if metrics["level"] == "char" else "word"
    low, high = (rounded(bound) for bound in test["perplexity_interval"])
    bits = test.get("bits_per_character")
    also = "" if bits is None else f"; {bits:.3f} bits per character, line ends included"
    text = f"test perplexity per token; 95\u202f% interval {low} to {high}{also}"
    claim = (
        f"{_who(run)} predicts the next {token} of new text as if it chose among "
        f"{rounded(test['perplexity'], 2)} equally likely ones"
    )
    beside = _best(metrics["baselines"], metrics, None)

    def difference(row: Mapping[str, Any]) -> str:
        middle, low, high = (_signed(bound) for bound in row["difference"])
        return f"perplexity; difference {middle}, 95\u202f% interval {low} to {high}"

    cards = [
        Card("Result", f"{test['perplexity']:.2f}", text),
        *_beside(beside, lambda row: rounded(row["perplexity"]), difference),
    ]
    return _screen(run, claim, beside, cards, trust_in_surprise(test), is_error=True)


def _screen(
    run: Any, claim: str, beside: _Beside | None, results: Sequence[Card], trust: Card | None, *,
    is_error: bool = False,
) -> Screen:  # fmt: skip
    """Join the answer, the cards and the advice; of an error, smaller results are better."""
    cards = [*results, *_of_parts(run.metrics), *filter(None, [trust])]
    if beside is None:
        return Screen(f"{claim}.", cards, _steps(run, "", "", trust))
    than = f"{beside.row['name']}, the best baseline"
    is_lower = beside.difference > 0 if is_error else beside.difference < 0
    level = "no better than" if is_lower else "as good as"
    ending = {
        AHEAD: f"better than {than}, by more than chance explains",
        BEHIND: f"worse than {than}",
        TOO_FEW: f"so few tests do not tell whether it is better than {than}",
    }.get(beside.relation, f"{level} {than}; the difference is within chance")
    steps = _steps(run, beside.relation, beside.row["name"], trust)
    return Screen(f"{claim}: {ending}.", cards, steps)


def _untested(run: Any) -> Screen:
    nouns = run.details.get("nouns", "texts")
    answer = f"{_who(run)} is trained, and not tested here."
    test = NextStep(f"Test it on {nouns} that it was not trained on", "model.report(path, X, y)")
    return Screen(answer, _of_parts(run.metrics), [test])


def _who(run: Any) -> str:
    return f"The model ({run.metrics['model']})"


def _best(
    rows: Sequence[Mapping[str, Any]], metrics: Mapping[str, Any], target: str | None
) -> _Beside | None:
    """Return the best baseline, and how the model compares with it; None without baselines."""
    standings = metrics.get("standing") or {}
    standings = standings if target is None else standings.get(target) or {}
    named = [row for row in rows if row["name"] == standings.get("baseline")]
    if not named:
        return None
    return _Beside(named[0], standings["relation"], standings["difference"][0])


def _beside(beside: _Beside | None, figure: Any, text: Any) -> list[Card]:
    if beside is None:
        return []
    row = beside.row
    tone = {AHEAD: "good", BEHIND: "bad"}.get(beside.relation, "")
    return [Card(f"Best baseline: {row['name']}", figure(row), text(row), tone=tone)]


def _in_points(row: Mapping[str, Any]) -> str:
    difference, low, high = map(points, row["difference"])
    return f"difference {difference} points, 95\u202f% interval {low} to {high}"


def _signed(number: float) -> str:
    return signed(number, max(2, len(rounded(abs(number), 2).partition(".")[2])))


def _of_parts(metrics: Mapping[str, Any]) -> list[Card]:
    """Return the card of the shares of kernel and network."""
    kept = {name: half["share"] for name, half in metrics["parts"].items() if half["share"]}
    if not kept:
        return []
    text = parts_sentence(metrics["parts"])
    if len(kept) == 1:
        (name,) = kept
        return [Card("Kernel and network", f"{name} alone", text or f"There is only a {name}.")]
    figure = " + ".join(percent(share, 0) for share in kept.values())
    return [Card("Kernel and network", figure, text, tuple(kept.items()))]


def _steps(run: Any, relation: str, baseline: str, trust: Card | None) -> list[NextStep]:
    """Return what to do next, the most important first."""
    out = str(run.details["config"].get("out", "RUN"))
    is_python = run.metrics["task"] == "estimator"
    predict, explain = (
        f"model.{verb}(X)" if is_python else f"representer {verb} {shlex.quote(out)} FILE"
        for verb in ("predict", "explain")
    )
    steps = []
    if relation == BEHIND:
        steps.append(
            NextStep(f"Use {baseline} here, or train on more examples: the model is behind.")
        )
    elif relation and relation != AHEAD:
        steps.append(NextStep(f"If you need only predictions, {baseline} is the simpler choice."))
    steps.append(NextStep("Predict data of your own", predict))
    steps.append(NextStep("See what single predictions come from", explain))
    if trust and trust.figure in (OVER, ON_AVERAGE):
        is_number = run.metrics.get("kind") == "regression"
        what = "uncertainties" if is_number else "probabilities"
        steps.append(NextStep(f"Rely on the order of its {what}, less on their size."))
    return steps
