"""Format explanations for the terminal, with the matched words marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from representer.printable import printable
from representer.tasks import estimator_explain

STRONG, PLAIN = "\x1b[1;4m", "\x1b[0m"


def as_text(entry: dict[str, Any], *, styled: bool) -> str:
    """Return an explanation as lines.

    Args:
        entry: Entry returned by ``explain``.
        styled: Print matched words bold and underlined; otherwise in brackets.
    """
    if "words" not in entry:
        return estimator_explain.as_text(entry, styled=styled)
    words, constant = sum(entry["by_word"]), entry["constant"]
    lines = [
        f"{entry['noun']} {entry['row']}: {printable(entry['prediction'])}",
        f"  {sentence(entry['words'], entry['marked'], styled=styled)}",
        f"  evidence {entry['score']:+.3f}: words {words:+.3f}, constant {constant:+.3f}",
    ]
    if entry["layers"] > 1:
        lines.append(
            f"  layer 1 of {entry['layers']}, contributions propagated through the layers above"
        )
    if entry["ngrams"]:
        lines += _ngrams(entry)
    if entry["steps"]:
        lines += _steps(entry)
    return "\n".join(lines)


def sentence(words: Sequence[str], marked: Sequence[bool], *, styled: bool) -> str:
    """Return the words, with the marked ones highlighted and control characters replaced."""
    before, after = (STRONG, PLAIN) if styled else ("[", "]")
    shown = [
        f"{before}{printable(word)}{after}" if is_marked else printable(word)
        for word, is_marked in zip(words, marked, strict=True)
    ]
    return " ".join(shown)


def _ngrams(entry: dict[str, Any]) -> list[str]:
    width = max(len(printable(ngram["text"])) for ngram in entry["ngrams"])
    title = f"{'matched words':<{max(width, 13)}}"
    lines = [f"  {title}  contribution  unit  half-life  reference"]
    for ngram in entry["ngrams"]:
        unit = entry["units"][str(ngram["unit"])]
        lines.append(
            f"  {printable(ngram['text']):<{max(width, 13)}}  {ngram['contribution']:+12.4f}  "
            f"{ngram['unit']:>4}  {_tokens(unit['half_life']):>9}  {printable(unit['text'])}"
        )
    named = ", ".join(f"{unit['unit']} ({unit['effect']:+.3f})" for unit in entry["strongest"])
    return [*lines, f"  strongest units: {named}"]


def _tokens(half_life: float | None) -> str:
    return "never" if half_life is None else f"{half_life:.2f}"


def _steps(entry: dict[str, Any]) -> list[str]:
    width = max(4, *(len(printable(step["word"])) for step in entry["steps"]))
    lines = [
        f"  {'word':<{width}}  position  contribution  unit  of the unit  "
        "input gate     kept  output gate"
    ]
    for step in entry["steps"]:
        lines.append(
            f"  {printable(step['word']):<{width}}  {step['step'] + 1:>8}  "
            f"{step['contribution']:+12.4f}  {step['unit']:>4}  "
            f"{step['unit_contribution']:+11.4f}  {step['written']:>10.3f}  "
            f"{step['kept']:>7.2g}  {step['read']:>11.3f}"
        )
    return lines
