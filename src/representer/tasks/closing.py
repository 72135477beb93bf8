"""The closing lines of a run on the terminal: the table of results, and how the model compares."""

from __future__ import annotations

from typing import Any

from representer.report.targets import by_target


def verdict(metrics: dict[str, Any], nouns: str) -> str:
    """Return a sentence that compares the model with each baseline.

    The model is "ahead" or "behind" where the 95 % interval of the paired difference excludes 0.
    """
    sentences = [
        (f"{name}: " if name else "") + sentence
        for name, own in by_target(metrics).items()
        if (sentence := _verdict(own, nouns))
    ]
    return " ".join(sentences)


def _verdict(metrics: dict[str, Any], nouns: str) -> str:
    is_regression = metrics["kind"] == "regression"
    parts = []
    for baseline in (*metrics["comparisons"], *metrics["baselines"]):
        difference, low, high = baseline["difference"]
        is_ahead, is_behind = (high < 0, low > 0) if is_regression else (low > 0, high < 0)
        relation = "ahead of" if is_ahead else "behind" if is_behind else "level with"
        interval = f"RMSE {difference:+.3g}, 95 % interval {low:+.3g} to {high:+.3g}"
        if not is_regression:
            points = (100 * number for number in (difference, low, high))
            interval = "{:+.1f} points, 95 % interval {:+.1f} to {:+.1f}".format(*points)
        parts.append(f"{relation} {baseline['name']} ({interval})")
    if not parts:
        return ""
    listed = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
    return f"On {metrics['test']['count']} test {nouns}, {metrics['model']} is {listed}."


def summary(metrics: dict[str, Any]) -> str:
    """Return the closing table for the terminal, of each target."""
    targets = by_target(metrics).items()
    return "\n".join((f"{name}\n" if name else "") + _summary(own) for name, own in targets)


def _summary(metrics: dict[str, Any]) -> str:
    rows = [(metrics["model"], metrics["test"], metrics["seconds"])]
    others = (*metrics["comparisons"], *metrics["baselines"])
    rows += [(row["name"], row, row["seconds"]) for row in others]
    width = max(len(name) for name, _, _ in rows)
    if metrics["kind"] == "regression":
        lines = [f"{'':<{width}}        RMSE    95 % interval             MAE      R²  training"]
        for name, row, seconds in rows:
            low, high = row["rmse_interval"]
            r2 = "–" if row["r2"] is None else f"{row['r2']:.3f}"
            lines.append(
                f"{name:<{width}}  {row['rmse']:10.4g}  {low:10.4g} – {high:<10.4g}"
                f"  {row['mae']:8.4g}  {r2:>6}  {seconds:6.1f} s"
            )
        return "\n".join(lines)
    lines = [f"{'':<{width}}  accuracy  95 % interval     macro F1  training"]
    for name, row, seconds in rows:
        low, high = (100 * bound for bound in row["accuracy_interval"])
        lines.append(
            f"{name:<{width}}  {100 * row['accuracy']:6.2f} %  {low:5.2f} – {high:6.2f} %  "
            f"{row['macro_f1']:8.3f}  {seconds:6.1f} s"
        )
    return "\n".join(lines)
