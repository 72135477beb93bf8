"""The first screen of a report: the answer, its figures, whether to trust it, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from representer.report.metrics import wilson_interval
from representer.report.standing import AHEAD, BEHIND, parts_sentence
from representer.report.wording import percent, points, rounded, signed

YES, OVER, UNDER = "Yes", "Overconfident", "Underconfident"
NOTABLE = 0.02  # a smaller gap between confidence and accuracy has no consequence


class Card(NamedTuple):
    """A figure with its meaning.

    Attributes:
        label: The question that it answers.
        figure: The figure.
        text: What it is, with its interval.
        shares: Names and sizes of the parts of a bar.
        tone: ``"good"``, ``"bad"`` or nothing.
    """

    label: str
    figure: str
    text: str
    shares: tuple[tuple[str, float], ...] = ()
    tone: str = ""


class Step(NamedTuple):
    """Advice, and the command or code that follows it."""

    text: str
    code: str = ""


class Screen(NamedTuple):
    """The first screen; see `Card` and `Step`."""

    answer: str
    cards: Sequence[Card]
    steps: Sequence[Step]


def of_classes(run: Any, targets: Sequence[Mapping[str, Any]]) -> Screen:
    """Return the first screen of a classification of objects."""
    results, nouns = [], run.details["nouns"]
    for own in targets:
        test, of = own["test"], f" of {own['name']}" if own["name"] else ""
        low, high = test["accuracy_interval"]
        results.append(
            Card("Result", percent(test["accuracy"]), f"test accuracy{of}; 95\u202f% interval "
                 f"{percent(low)} to {percent(high)}")
        )  # fmt: skip
    if not targets:
        return _untested(run)
    test = targets[0]["test"]
    what = f" about {targets[0]['name']}" if targets[0]["name"] else ""
    claim = f"{_who(run)} is right{what} for {percent(test['accuracy'])} of the test {nouns}"
    beside = _best(targets[0]["baselines"], run.metrics, targets[0]["name"])
    shown = [*results, *_beside(beside, lambda row: percent(row["accuracy"]), _in_points)]
    return _screen(run, claim, beside, shown, _trust_in_classes(test))


def of_numbers(run: Any, targets: Sequence[Mapping[str, Any]]) -> Screen:
    """Return the first screen of a regression of objects."""
    results = []
    for own in targets:
        test, of = own["test"], f" of {own['name']}" if own["name"] else ""
        low, high = test["rmse_interval"]
        results.append(
            Card("Result", rounded(test["rmse"]), f"test RMSE{of}; 95\u202f% interval "
                 f"{rounded(low)} to {rounded(high)}")
        )  # fmt: skip
    if not targets:
        return _untested(run)
    test = targets[0]["test"]
    what = f" of {targets[0]['name']}" if targets[0]["name"] else ""
    claim = (
        f"The predictions{what} are {rounded(test['mae'], 2)} away from the true value on average "
        f"(root mean square {rounded(test['rmse'])})"
    )
    beside = _best(targets[0]["baselines"], run.metrics, targets[0]["name"])

    def difference(row: Mapping[str, Any]) -> str:
        found, low, high = (_signed(one) for one in row["difference"])
        return f"difference of the RMSE {found}, 95\u202f% interval {low} to {high}"

    shown = [*results, *_beside(beside, lambda row: rounded(row["rmse"]), difference)]
    return _screen(run, claim, beside, shown, _trust_in_intervals(test))


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
        own = row["difference"]
        low, high = map(points, own["interval"])
        return f"difference {points(own['mean'])} points, 95\u202f% interval {low} to {high}"

    shown = _beside(beside, lambda row: percent(row["mean"]), difference)
    cards = [Card("Result", percent(metrics["mean"]), text), *shown]
    return _screen(run, claim, beside, cards, _trust_in_classes(metrics["test"]))


def of_text(run: Any) -> Screen:
    """Return the first screen of a language model."""
    test, metrics = run.metrics["test"], run.metrics
    if not test:
        return _untested(run)
    token = "character" if metrics["level"] == "char" else "word"
    low, high = (rounded(one) for one in test["perplexity_interval"])
    bits = test.get("bits_per_character")
    also = "" if bits is None else f"; {bits:.3f} bits per character, line ends included"
    text = f"test perplexity per token; 95\u202f% interval {low} to {high}{also}"
    claim = (
        f"{_who(run)} predicts the next {token} of new text as if it chose among "
        f"{rounded(test['perplexity'], 2)} equally likely ones"
    )
    beside = _best(metrics["baselines"], metrics, None)

    def difference(row: Mapping[str, Any]) -> str:
        found, low, high = (_signed(one) for one in row["difference"])
        return f"perplexity; difference {found}, 95\u202f% interval {low} to {high}"

    cards = [
        Card("Result", f"{test['perplexity']:.2f}", text),
        *_beside(beside, lambda row: rounded(row["perplexity"]), difference),
    ]
    return _screen(run, claim, beside, cards, _trust_in_surprise(test))


def _screen(
    run: Any,
    claim: str,
    beside: tuple[Mapping[str, Any], str] | None,
    results: Sequence[Card],
    trust: Card | None,
) -> Screen:
    """Join the answer, the cards and the advice."""
    cards = [*results, *_of_parts(run.metrics), *filter(None, [trust])]
    if beside is None:
        return Screen(f"{claim}.", cards, _steps(run, "", "", trust))
    row, relation = beside
    than = f"{row['name']}, the best baseline"
    ending = {
        AHEAD: f"better than {than}, by more than chance explains",
        BEHIND: f"worse than {than}",
    }.get(relation, f"as good as {than}; the difference is within chance")
    return Screen(f"{claim}: {ending}.", cards, _steps(run, relation, row["name"], trust))


def _untested(run: Any) -> Screen:
    nouns = run.details.get("nouns", "texts")
    answer = f"{_who(run)} is trained, and not tested here."
    test = Step(f"Test it on {nouns} that it was not trained on", "model.report(path, X, y)")
    return Screen(answer, _of_parts(run.metrics), [test])


def _who(run: Any) -> str:
    return f"The model ({run.metrics['model']})"


def _best(
    rows: Sequence[Mapping[str, Any]], metrics: Mapping[str, Any], target: str | None
) -> tuple[Mapping[str, Any], str] | None:
    """Return the best baseline, and how the model compares with it; None without baselines."""
    found = metrics.get("standing") or {}
    found = found if target is None else found.get(target) or {}
    named = [row for row in rows if row["name"] == found.get("baseline")]
    return (named[0], found["relation"]) if named else None


def _beside(beside: tuple[Mapping[str, Any], str] | None, figure: Any, text: Any) -> list[Card]:
    if beside is None:
        return []
    row, relation = beside
    tone = {AHEAD: "good", BEHIND: "bad"}.get(relation, "")
    return [Card(f"Best baseline: {row['name']}", figure(row), text(row), tone=tone)]


def _in_points(row: Mapping[str, Any]) -> str:
    difference, low, high = map(points, row["difference"])
    return f"the model is {difference} points from it; 95\u202f% interval {low} to {high}"


def _signed(number: float) -> str:
    return signed(number, max(2, len(rounded(abs(number), 2).partition(".")[2])))


def _of_parts(metrics: Mapping[str, Any]) -> list[Card]:
    """Return the card of the shares of kernel and network."""
    kept = {name: part["share"] for name, part in metrics["parts"].items() if part["share"]}
    if not kept:
        return []
    text = parts_sentence(metrics["parts"])
    if len(kept) == 1:
        (name,) = kept
        return [Card("Kernel and network", f"{name} alone", text or f"There is only a {name}.")]
    figure = " + ".join(percent(share, 0) for share in kept.values())
    return [Card("Kernel and network", figure, text, tuple(kept.items()))]


def _trust_in_classes(test: Mapping[str, Any]) -> Card:
    bins, (low, high) = test["calibration"]["bins"], wilson_interval(
        round(test["accuracy"] * test["count"]), test["count"]
    )  # fmt: skip
    sure = sum(row["count"] * row["confidence"] for row in bins) / test["count"]
    gap = sure - test["accuracy"]
    is_fine = low <= sure <= high or abs(gap) < NOTABLE
    verdict = YES if is_fine else OVER if gap > 0 else UNDER
    text = (
        f"it is {percent(sure, 0)} sure on average, and right in {percent(test['accuracy'], 0)}; "
        f"calibration error {percent(test['calibration']['error'])}"
    )
    return _trust(verdict, text)


def _trust_in_intervals(test: Mapping[str, Any]) -> Card | None:
    if "coverage" not in test:
        return None
    held = test["coverage"]["0.95"]
    low, high = wilson_interval(round(held * test["count"]), test["count"])
    verdict = OVER if high < 0.95 else UNDER if low > 0.95 else YES
    return _trust(verdict, f"its 95\u202f% intervals contain {percent(held, 0)} of the true values")


def _trust_in_surprise(test: Mapping[str, Any]) -> Card | None:
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
    tone = {YES: "good", OVER: "bad"}.get(verdict, "")
    return Card("Can its certainty be trusted?", verdict, text, tone=tone)


def _steps(run: Any, relation: str, baseline: str, trust: Card | None) -> list[Step]:
    """Return what to do next, the most important first."""
    out = str(run.details["config"].get("out", "RUN"))
    is_python = run.metrics["task"] == "estimator"
    predict, explain = (
        f"model.{verb}(X)" if is_python else f"representer {verb} {shlex.quote(out)} FILE"
        for verb in ("predict", "explain")
    )
    steps = []
    if relation == BEHIND:
        steps.append(Step(f"Use {baseline} here, or train on more examples: the model is behind."))
    elif relation and relation != AHEAD:
        steps.append(Step(f"If you need only predictions, {baseline} is the simpler choice."))
    steps.append(Step("Predict data of your own", predict))
    steps.append(Step("See what single predictions come from", explain))
    if trust and trust.figure == OVER:
        steps.append(Step("Rely on the order of its probabilities, less on their size."))
    return steps
