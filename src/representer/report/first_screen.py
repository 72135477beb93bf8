"""The first screen of a report: the answer, its figures, whether to trust it, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from representer.report.cards import Card
from representer.report.standing import AHEAD, BEHIND, TOO_FEW, parts_sentence
from representer.report.trust import (
    ON_AVERAGE,
    OVER,
    trust_in_classes,
    trust_in_intervals,
    trust_in_surprise,
)
from representer.report.wording import percent, points, rounded, signed


class Step(NamedTuple):
    """Advice, and the command or code that follows it."""

    text: str
    code: str = ""


class Screen(NamedTuple):
    """The first screen; see `Card` and `Step`."""

    answer: str
    cards: Sequence[Card]
    steps: Sequence[Step]


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
        found, low, high = (_signed(one) for one in row["difference"])
        return f"difference of the RMSE {found}, 95\u202f% interval {low} to {high}"

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
    for own in targets:
        of = f" of {own['name']}" if own["name"] else ""
        low, high = (form(bound) for bound in own["test"][f"{key}_interval"])
        text = f"test {name}{of}; 95\u202f% interval {low} to {high}"
        cards.append(Card("Result", form(own["test"][key]), text))
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
        own = row["difference"]
        return _in_points({"difference": (own["mean"], *own["interval"])})

    shown = _beside(beside, lambda row: percent(row["mean"]), difference)
    cards = [Card("Result", percent(metrics["mean"]), text), *shown]
    return _screen(run, claim, beside, cards, trust_in_classes(metrics["test"]))


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
    return _screen(run, claim, beside, cards, trust_in_surprise(test), is_error=True)


def _screen(
    run: Any,
    claim: str,
    beside: _Beside | None,
    results: Sequence[Card],
    trust: Card | None,
    *,
    is_error: bool = False,
) -> Screen:
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
    test = Step(f"Test it on {nouns} that it was not trained on", "model.report(path, X, y)")
    return Screen(answer, _of_parts(run.metrics), [test])


def _who(run: Any) -> str:
    return f"The model ({run.metrics['model']})"


def _best(
    rows: Sequence[Mapping[str, Any]], metrics: Mapping[str, Any], target: str | None
) -> _Beside | None:
    """Return the best baseline, and how the model compares with it; None without baselines."""
    found = metrics.get("standing") or {}
    found = found if target is None else found.get(target) or {}
    named = [row for row in rows if row["name"] == found.get("baseline")]
    if not named:
        return None
    return _Beside(named[0], found["relation"], found["difference"][0])


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
    kept = {name: part["share"] for name, part in metrics["parts"].items() if part["share"]}
    if not kept:
        return []
    text = parts_sentence(metrics["parts"])
    if len(kept) == 1:
        (name,) = kept
        return [Card("Kernel and network", f"{name} alone", text or f"There is only a {name}.")]
    figure = " + ".join(percent(share, 0) for share in kept.values())
    return [Card("Kernel and network", figure, text, tuple(kept.items()))]


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
    if trust and trust.figure in (OVER, ON_AVERAGE):
        steps.append(Step("Rely on the order of its probabilities, less on their size."))
    return steps
