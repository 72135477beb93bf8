"""The README of a shared run: data, scores with intervals, parts, how to load it, and limits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from representer.errors import markdown, one_line
from representer.report.page import BESIDE, by_target
from representer.report.summary import parts_sentence

_PIPELINES = {
    ("text", "classification"): "text-classification",
    ("language", ""): "text-generation",
    ("molecule", ""): "graph-ml",
    ("graph", ""): "graph-ml",
}
_MEASURES = {  # those with an interval first
    "accuracy": "accuracy", "rmse": "RMSE", "perplexity": "perplexity",
    "macro_f1": "macro F1", "auc": "ROC AUC", "average_precision": "average precision",
    "mae": "MAE", "r2": "R²",
}  # fmt: skip
_MOST_CLASSES = 20


def model_card(
    name: str,
    described: Mapping[str, Any],
    metrics: Mapping[str, Any] | None = None,
    details: Mapping[str, Any] | None = None,
) -> str:
    """Return the README of a run, Markdown with metadata of the Hugging Face Hub.

    ``metrics`` are None for an estimator that was not tested.
    """
    metrics, details = metrics or {}, details or {}
    model = metrics.get("model") or described["estimator"]
    parts = [
        _metadata(described, metrics),
        f"# {markdown(name)}\n\n"
        f"A `representer.estimators.{described['estimator']}`: {markdown(model)}.",
        "## Data\n\n" + "\n".join(f"- {line}" for line in _data(described, details)),
        "## Scores\n\n" + "\n\n".join(_scores(metrics)),
        "## Kernel and network\n\n" + "\n".join(f"- {line}" for line in _parts(metrics, details)),
        f"## How to load it\n\n```python\n{_program(name)}\n```",
        "## Limits\n\n" + "\n".join(f"- {line}" for line in _limits(described)),
    ]
    return "\n\n".join(parts) + "\n"


def _metadata(described: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    task = described["task"]
    kinds = (task, metrics.get("kind", "")), (task, "")
    pipeline = [f"pipeline_tag: {_PIPELINES[kind]}" for kind in kinds if kind in _PIPELINES][:1]
    tags = f"tags: [representer, kernel-methods{', ' + task if task.isidentifier() else ''}]"
    return "\n".join(["---", "library_name: representer", *pipeline, tags, "---"])


def _data(described: Mapping[str, Any], details: Mapping[str, Any]) -> Iterator[str]:
    if title := details.get("title"):
        yield f"{markdown(title)}."
    data = details.get("data", {})
    for source in data.get("sources", ()):
        file = PurePath(source["file"]).name  # without the folder, which is of one machine
        rows = f"{source['kept']:,} of {source['rows']:,} rows"
        named, digest = f"{markdown(file)} ({markdown(source['role'])})", markdown(source["sha256"])
        yield f"{named}: {rows}; SHA-256 {digest}."
    counts = dict(described["examples"])
    if isinstance(data.get("test"), int):
        counts["test"] = data["test"]
    nouns = markdown(details.get("nouns", "examples")).capitalize()
    yield f"{nouns}: {', '.join(f'{count:,} {part}' for part, count in counts.items())}."
    target = described["target"]
    for column in target.get("columns") or [target]:
        if names := column.get("names"):
            listed = [markdown(name) for name in names[:_MOST_CLASSES]]
            listed += ["…"] * (len(names) > _MOST_CLASSES)
            yield f"{len(names)} classes: {', '.join(listed)}."


def _scores(metrics: Mapping[str, Any]) -> Iterator[str]:
    tested = by_target({"targets": [], **metrics}) if metrics.get("test") else {}
    if not tested:
        yield "It was not tested."
        return
    yield "On test data that was not used for training; brackets hold 95 % intervals."
    for target, own in tested.items():
        rows = [{"name": own["model"], **own["test"]}]
        rows += [{**row, **row.get("test", {})} for kind in BESIDE
                 for row in own.get(kind, ())]  # fmt: skip
        yield "\n".join([f"**{markdown(target)}**\n"] * bool(target) + _table(rows))
    if folds := metrics.get("folds"):
        yield (
            f"{len(folds)} models without the test subjects gave these predictions. The model "
            "of this folder was trained on all subjects."
        )
    if verdict := metrics.get("verdict"):
        yield markdown(verdict)


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    measures = [name for name in _MEASURES if isinstance(rows[0].get(name), float)]
    head = ["model", *(_MEASURES[name] for name in measures)]
    body = [[markdown(row["name"]), *(_number(row, name) for name in measures)] for row in rows]
    if len(rows) > 1:
        head.append("difference of the model")
        body = [[*cells, _difference(row)] for cells, row in zip(body, rows, strict=True)]
    lines = [head, ["---"] * len(head), *body]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _number(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, int | float):
        return ""
    interval = row.get(f"{name}_interval")
    return f"{value:.4g}" + (f" [{interval[0]:.4g}, {interval[1]:.4g}]" if interval else "")


def _difference(row: Mapping[str, Any]) -> str:
    found = row.get("difference")
    if not found:
        return ""
    if isinstance(found, Mapping):  # over subjects
        found = found["mean"], *found["interval"]
    value, low, high = found
    return f"{value:+.3g} [{low:+.3g}, {high:+.3g}]"


def _parts(metrics: Mapping[str, Any], details: Mapping[str, Any]) -> Iterator[str]:
    if sentence := parts_sentence(metrics.get("parts", {})):
        yield sentence
    for what, value in details.get("model", {}).get("values", {}).items():
        yield f"{markdown(what)}: {markdown(value)}"
    if sizes := metrics.get("parameters"):
        sizes = {"all": sizes} if isinstance(sizes, int) else sizes
        yield "parameters: " + ", ".join(f"{markdown(part)} {n:,}" for part, n in sizes.items())
    if not metrics:
        yield "`model.json` describes both."


def _program(name: str) -> str:
    return (
        "from representer import hub\n\n"
        f"model = hub.from_pretrained({json.dumps(one_line(name))})\n"
        "predictions = model.predict(objects)  # explanations: model.explain(objects)"
    )


def _limits(described: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "The scores hold for data like the test data. Their intervals cover the choice of the test "
        "data, not that of the seed and of the training data."
    )
    yield (
        "The files hold parts of the training data: the vocabulary, the names of the classes, and "
        "what the kernel compares with, such as n-grams or graphs."
    )
    yield (
        f"They are read by version {markdown(described['version'])} of the library. Loading runs "
        "no code from them: weights are safetensors, everything else is JSON."
    )
