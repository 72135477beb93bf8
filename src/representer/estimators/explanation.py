"""The parts of an estimator, and an explained prediction: contributions that sum to the score."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple

from representer.errors import printable
from representer.estimators.label_sets import LabelSets, joined_labels, sets_of
from representer.estimators.targets import Target, classes_of
from representer.report.metrics import decimals_of, signed
from representer.report.page import Predictions, rows_of, shown

KERNEL, NETWORK, BOTH = "kernel", "network", "both"
TEXT_PLACES = ("word", "token")  # places that are shown as running text
Where = tuple[int, ...]


class Example(NamedTuple):
    """An object to choose for an explanation.

    Attributes:
        name: Its number and its label.
        group: What it belongs to, such as a recording; empty if there are no groups.
        value: The object, as the estimator takes it.
    """

    name: str
    group: str
    value: Any


class Part(NamedTuple):
    """A fitted part of an estimator."""

    share: float  # its part of the spread of the scores, between 0 and 1; 0 if it was dropped
    seconds: float | None  # time of fitting; None where it was not measured, as after `load`


class Contribution(NamedTuple):
    """A summand of a score.

    Attributes:
        what: An n-gram, a walk, a band, in words and without its place: contributions with the same
            name make one line of an explanation.
        where: Positions of the words, atoms or steps.
        part: ``"kernel"`` or ``"network"``.
        contribution: The summand.
    """

    what: str
    where: tuple[int, ...]
    part: str
    contribution: float


Explained = tuple[float, float, list[Contribution]]  # score, constant part, contributions


def scaled(terms: list[Contribution], factor: float) -> list[Contribution]:
    """Return contributions times a factor; of a series they are many, so 1 copies nothing."""
    if factor == 1.0:
        return terms
    return [Contribution(*term[:-1], factor * term.contribution) for term in terms]


class Line(NamedTuple):
    """Contributions that are summed: those of a word or an atom, or of an n-gram or a walk."""

    what: str  # its name
    places: tuple[Where, ...]  # the positions of each place
    kernel: float  # the contribution of the kernel
    network: float  # the contribution of the network

    @property
    def contribution(self) -> float:
        """The contribution of both parts."""
        return self.kernel + self.network

    @property
    def where(self) -> Where:
        """The positions of all places."""
        return tuple(t for position in self.places for t in position)

    def entry(self) -> dict[str, Any]:
        """Return the line as plain values."""
        return {
            "what": self.what,
            "places": [list(position) for position in self.places],
            KERNEL: float(self.kernel),
            NETWORK: float(self.network),
            "contribution": float(self.contribution),
        }


class Places(NamedTuple):
    """The words, atoms, nodes or steps that an object consists of, with their names."""

    names: Mapping[Where, str]  # the name of each place, by its positions, in reading order
    whole: str = "elsewhere"  # name of the place of contributions of the whole object
    # one place, and one of the features that contributions are of: "word", "n-gram"
    nouns: tuple[str, str] = ("place", "feature")
    # parts of which a contribution at every place is one of the whole object
    whole_parts: tuple[str, ...] = ()
    # from ``where`` and ``part`` of a contribution to the positions of its places, which have
    # equal parts of it
    positions: Callable[[Where, str], Iterable[Where]] = lambda where, part: [(t,) for t in where]

    @classmethod
    def numbered(cls, names: Sequence[str], *rest: Any) -> Places:
        """Return places that are numbered from 0."""
        return cls({(t,): name for t, name in enumerate(names)}, *rest)

    def sums(self, contributions: Iterable[Contribution]) -> tuple[Line, ...]:
        """Return the sum of the contributions at each place, last those of the whole object."""
        sums = {where: {KERNEL: 0.0, NETWORK: 0.0} for where in self.names}
        totals: dict[tuple[Where, str], float] = {}
        for _, covered, half, value in contributions:
            totals[covered, half] = totals.get((covered, half), 0.0) + value
        for (covered, half), value in totals.items():
            is_whole = half in self.whole_parts and len(covered) == len(self.names) > 1
            places = [] if is_whole else list(self.positions(covered, half))
            for where in places or [()]:
                halves = sums.setdefault(where, {KERNEL: 0.0, NETWORK: 0.0})
                halves[half] += value / max(1, len(places))
        names = self.names
        return tuple(
            Line(names.get(where, self.whole), (where,) if where else (), **halves)
            for where, halves in sums.items()
        )


@dataclass(frozen=True, repr=False)
class Explanation:
    """A prediction, and the contributions that sum to its score.

    Attributes:
        prediction: The predicted label or number.
        score: Score before the link function: of a class, its logit minus the mean of all logits;
            of a number, the number. It is computed by the network, not from the contributions.
        baseline: The summand that no part of the input contributes.
        contributions: All summands but the baseline, the largest in size first.
        listed: Number of lines to show.
        by_place: The same contributions summed by word, atom, node or step, in reading order; those
            of an n-gram or a walk in equal parts, and those of the whole object last.
        nouns: One place, and one of the features that contributions are of: "word", "n-gram".
        draw: Returns a picture of the object as SVG, where there is one.
    """

    prediction: Any
    score: float
    baseline: float
    contributions: tuple[Contribution, ...]
    listed: int = 10

    by_place: tuple[Line, ...] = ()
    nouns: tuple[str, str] = ("place", "feature")
    draw: Callable[[], str] | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls, prediction: Any, score: float, baseline: float, contributions: Iterable[Contribution],
        listed: int, places: Places,
    ) -> Explanation:  # fmt: skip
        """Return an explanation with its contributions in order, and summed by place."""
        ordered = tuple(sorted(contributions, key=lambda one: -abs(one.contribution)))
        sums = places.sums(ordered)
        return cls(prediction, score, baseline, ordered, listed, sums, places.nouns)

    @property
    def by_feature(self) -> list[Line]:
        """The contributions summed by n-gram, walk or band, the largest in size first."""
        sums: dict[str, dict[str, float]] = {}
        places: dict[str, dict[Where, None]] = {}
        for contribution in self.contributions:
            halves = sums.setdefault(contribution.what, {KERNEL: 0.0, NETWORK: 0.0})
            halves[contribution.part] += contribution.contribution
            places.setdefault(contribution.what, {})[contribution.where] = None
        lines = [Line(what, tuple(sorted(places[what])), **halves) for what, halves in sums.items()]
        return sorted(lines, key=lambda line: -abs(line.contribution))

    lines = by_feature

    def values_by_place(self) -> list[float]:
        """Return the contribution of each numbered place, without those of the whole object."""
        return [line.contribution for line in self.by_place if line.places]

    def marks(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the words of a text, with what a report marks in it.

        Returns:
            ``words``; ``by_word``, the contribution of each; ``strengths``, the same relative to
            the largest; and ``marked``, whether a word is in one of the listed lines.
        """
        sums = Places.numbered(words).sums(self.contributions)
        values = [line.contribution for line in sums if line.places]
        listed = {t for line in self.by_feature[: self.listed] for t in line.where}
        largest = max(map(abs, values), default=0.0) or 1.0
        return {
            "words": list(words),
            "by_word": values,
            "strengths": [value / largest for value in values],
            "marked": [t in listed for t in range(len(words))],
        }

    def entry(self, noun: str, row: int, prediction: str) -> dict[str, Any]:
        """Return the explanation as plain values, for explanations.json and reports."""
        lines = self.by_feature
        shown, others = lines[: self.listed], lines[self.listed :]
        return {
            "noun": noun,
            "row": row,
            "prediction": prediction,
            "score": float(self.score),
            "constant": float(self.baseline),
            "parts": sorted({contribution.part for contribution in self.contributions}),
            "nouns": list(self.nouns),
            "listed": self.listed,
            "by_place": [line.entry() for line in self.by_place],
            "contributions": [line.entry() for line in shown],
            "others": {
                "count": len(others),
                "contribution": float(sum(line.contribution for line in others)),
            },
        }

    @property
    def _shown(self) -> str:
        """The prediction in one format: a number with six digits, or the class."""
        return (
            f"{self.prediction:.6g}" if isinstance(self.prediction, float) else str(self.prediction)
        )

    def __repr__(self) -> str:
        """Return the prediction, the score and the largest contributions in one line."""
        shown = ", ".join(
            f"{row['what']} {row['contribution']:+.3g}" for row in self.rows()[:-2][:3]
        )
        return f"Explanation({self._shown}, score {self.score:+.3g}: {shown}, ...)"

    def rows(self, *, by_feature: bool = False) -> list[dict[str, Any]]:
        """Return the rows of a table; see `rows_of`."""
        return rows_of(self.entry("", 0, ""), by_feature=by_feature)

    def __str__(self) -> str:
        """Return the contributions by place as a table."""
        rows = self.rows()
        width = max(len(row["what"]) for row in rows)
        digits = 1 + decimals_of(row["contribution"] for row in rows)
        lines = [f"{row['what']:<{width}}  {row['contribution']:+10.{digits}f}" for row in rows]
        return "\n".join([f"prediction: {self._shown}", *lines])

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the words or a picture, and the contributions."""
        largest = max((abs(line.contribution) for line in self.by_place), default=0.0) or 1.0
        if self.nouns[0] in TEXT_PLACES:
            body = " ".join(
                f'<span title="{signed(line.contribution, 3)}" '
                f'style="border-radius:3px;padding:0 2px;'
                f'background:{_color(line.contribution / largest)}">{escape(line.what)}</span>'
                for line in self.by_place
            )
            body = f'<p style="line-height:1.8">{body}</p>'
        else:
            body = "" if self.draw is None else _SHADES + str(self.draw())
        features = _html_table(self.rows(by_feature=True))
        return (
            f'<div style="max-width:640px"><b>{escape(self._shown)}</b>'
            f'<span style="opacity:.7"> score {signed(self.score, 3)}</span>{body}'
            f"{_html_table(self.rows())}<details><summary>By {self.nouns[1]}</summary>{features}"
            f"</details></div>"
        )


def explanations_of(
    estimator: Any, objects: Sequence[Any], predictions: Sequence[Predictions],
    numbers: Sequence[int], noun: str, top: int, targets: Sequence[str] = (),
    truths: Sequence[Any] = (),
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the explanation of each object, as in explanations.json, with its true value if known.

    Raises:
        KindError: Its predictions have no contributions.
    """
    names = (classes_of(estimator.target_) or [[]])[0]
    first = f"{targets[0]}: " if len(targets) > 1 else ""
    target: Target = estimator.target_
    sets = sets_of(target, predictions) if isinstance(target, LabelSets) else []
    estimator, entries = estimator.on_cpu(), []
    for i, explanation in enumerate(estimator.explain(objects, top)):
        predicted = first + shown(predictions[0], i, names)
        if sets:
            there, chances = sets[i]
            best = max(chances, key=lambda name: chances[name])
            predicted = f"{joined_labels(there)}; the score of {best}"
        entry = explanation.entry(noun, numbers[i], predicted)
        truth = {"truth": str(truths[i])} if len(truths) else {}
        entries.append(entry | truth | estimator.explanation_details(objects[i], explanation))
    return entries


BLUE, RED = (59, 130, 196), (214, 92, 70)  # for and against, as in style.css
_SHADES = (
    '<svg width="0" height="0" style="position:absolute">'
    + "".join(
        f'<radialGradient id="{name}"><stop offset="0" stop-opacity=".95" stop-color="rgb{color}"/>'
        f'<stop offset="1" stop-opacity="0" stop-color="rgb{color}"/></radialGradient>'
        for name, color in (("favor", BLUE), ("against", RED))
    )
    + "</svg>"
)


def _color(strength: float) -> str:
    red, green, blue = BLUE if strength >= 0 else RED
    return f"rgba({red},{green},{blue},{0.62 * min(1.0, abs(strength)):.2f})"


def _html_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows with a bar each; the last one is their sum."""
    values = [row["contribution"] for row in rows]
    decimals = decimals_of(values)
    largest = max(map(abs, values[:-2]), default=0.0) or 1.0
    cells = []
    for name, value in zip([row["what"] for row in rows], values, strict=True):
        width = 80 * min(1.0, abs(value) / largest)
        start = 80 if value >= 0 else 80 - width
        bar = "" if name == "score" else (
            f'<div style="height:10px;width:{width:.0f}px;margin-left:{start:.0f}px;'
            f'background:{_color(1.0 if value >= 0 else -1.0)}"></div>'
        )  # fmt: skip
        weight = "bold" if name == "score" else "normal"
        cells.append(
            f'<tr style="font-weight:{weight};background:none">'
            f'<td style="text-align:left">{escape(name)}</td>'
            f'<td style="width:165px">{bar}</td>'
            f'<td style="text-align:right">{signed(value, decimals)}</td></tr>'
        )
    return f'<table style="border-collapse:collapse">{"".join(cells)}</table>'


# Explained predictions as lines for the terminal: words, atoms or steps first, colored alike.

BAR, PLAIN = 20, "\x1b[0m"
OPACITY = 0.62  # opacity of the strongest color, as in reports


def as_text(
    entry: Mapping[str, Any], *, styled: bool, by_feature: bool = False, inside: bool = False
) -> str:
    """Return an explanation as lines.

    Unless ``styled``, words are marked by brackets. ``by_feature`` lists n-grams, walks or bands
    instead of words, atoms, nodes or steps, and ``inside`` units or steps of the network, too.
    """
    which = printable(entry.get("name") or str(entry["row"]))
    title = f"{entry['noun']} {which}: {printable(entry['prediction'])}"
    if "smiles" in entry:
        title += f", {printable(entry['smiles'])}"
    rows = rows_of(entry, by_feature=by_feature)
    lines = [title]
    if entry.get("by_place") and entry["nouns"][0] in TEXT_PLACES:
        lines.append(f"  {sentence(entry['by_place'], entry['listed'], styled=styled)}")
    columns = ["contribution", *(entry["parts"] if _has_both(rows) else [])]
    decimals = 1 + decimals_of(row["contribution"] for row in rows)
    largest = max((abs(row["contribution"]) for row in rows[:-2]), default=0.0) or 1.0
    width = max(len(_name(row)) for row in rows)
    if len(columns) > 1:
        lines.append(f"  {'':<{width}}  {'  '.join(f'{name:>12}' for name in columns)}")
    for row in rows:
        cells = [f"{row[name]:+12.{decimals}f}" if name in row else " " * 12 for name in columns]
        bar = "" if row["what"] == "score" else _bar(row["contribution"] / largest, styled=styled)
        lines.append(f"  {_name(row):<{width}}  {'  '.join(cells)}  {bar}".rstrip())
    return "\n".join([*lines, *(_inside(entry) if inside else [])])


def sentence(places: Sequence[Mapping[str, Any]], listed: int, *, styled: bool) -> str:
    """Return the words of a text, those with the largest contributions highlighted.

    Control characters are replaced.
    """
    sizes = sorted((abs(entry["contribution"]) for entry in places), reverse=True)
    least = (sizes[:listed][-1] if sizes else 0.0) or 1e-300
    shown = []
    for entry in (entry for entry in places if entry["places"]):
        word, value = printable(entry["what"]), entry["contribution"]
        if styled:
            word = _colored(word, value / sizes[0]) if value else word
        elif abs(value) >= least:
            word = f"[{word}]"
        shown.append(word)
    return " ".join(shown)


def _colored(text: str, strength: float) -> str:
    """Return black text on the color of the reports, over white."""
    opacity = OPACITY * abs(strength)
    color = (round(255 + opacity * (channel - 255)) for channel in (BLUE if strength > 0 else RED))
    return f"\x1b[30;48;2;{';'.join(map(str, color))}m{text}{PLAIN}"


def _bar(strength: float, *, styled: bool) -> str:
    count = round(BAR * min(1.0, abs(strength)))
    if not styled:
        return ("+" if strength > 0 else "-") * count
    return _colored(" " * count, 1.0 if strength > 0 else -1.0) if count else ""


def _has_both(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if a line has contributions of the kernel and of the network."""
    return any(row.get("kernel") and row.get("network") for row in rows)


def _name(row: Mapping[str, Any]) -> str:
    """Return the name of a line, with the number of its places if there are several."""
    count = len(row.get("places", ()))
    return printable(row["what"]) + (f" ({count} places)" if count > 1 else "")


def _inside(entry: Mapping[str, Any]) -> list[str]:
    depth = entry.get("layers", 1)
    above = f"  of layer 1 of {depth}, contributions propagated through the layers above:"
    lines = _units(entry.get("units", [])) + _steps(entry.get("steps", []))
    return [*([above] if depth > 1 else []), *lines]


def _units(units: Sequence[dict[str, Any]]) -> list[str]:
    lines = ["  units of the network with the largest contributions:"] if units else []
    for unit in units:
        half_life = "never" if unit["half_life"] is None else f"{unit['half_life']:.2f} words"
        head = f"    unit {unit['unit']} {unit['contribution']:+.4f}, half-life {half_life}, from"
        lines.append(head)
        lines += [
            f"      {n['contribution']:+10.4f}  {printable(n['text'])}" for n in unit["ngrams"]
        ]
    return lines


def _steps(steps: Sequence[dict[str, Any]]) -> list[str]:
    if not steps:
        return []
    width = max(4, *(len(printable(step["word"])) for step in steps))
    lines = [
        "  steps of the network with the largest contributions:",
        f"    {'word':<{width}}  position  contribution  unit  of the unit  "
        "input gate     kept  output gate",
    ]
    for step in steps:
        lines.append(
            f"    {printable(step['word']):<{width}}  {step['step'] + 1:>8}  "
            f"{step['contribution']:+12.4f}  {step['unit']:>4}  "
            f"{step['unit_contribution']:+11.4f}  {step['written']:>10.3f}  "
            f"{step['kept']:>7.2g}  {step['read']:>11.3f}"
        )
    return lines
