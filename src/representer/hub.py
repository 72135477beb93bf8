"""Trained runs and fitted estimators in folders to share, and on the Hugging Face Hub."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

from representer.errors import ArgumentError, markdown, one_line
from representer.estimators import base
from representer.estimators.base import Estimator
from representer.models.base import CARD, local_folder, upload
from representer.report.page import BESIDE, by_target
from representer.report.summary import parts_sentence
from representer.storage import atomic
from representer.storage.run import (
    MANIFEST,
    MODEL,
    OF_PREDICTIONS,
    RunFiles,
    RunFolder,
    refuse_links,
)

__all__ = ["from_pretrained", "push_to_hub", "save_pretrained"]
METRICS, DETAILS = "metrics.json", "details.json"
_FILES = [*OF_PREDICTIONS, MANIFEST, METRICS, "metrics.jsonl"]


def save_pretrained(run: str | Path | Estimator, folder: str | Path, *, name: str = "") -> None:
    """Write what predicts of a run into a new folder, with its scores and a ``README.md``.

    Predicted texts, rows of splits and paths of this machine, which a run folder holds as well, are
    left out. `from_pretrained` and ``representer predict`` read the folder.

    Args:
        run: The run folder, or a fitted estimator.
        folder: The folder; it may exist if it is empty.
        name: Name of the model in the README; that of the folder without one.

    Raises:
        ArgumentError: The folder holds a run or files of the same names.
        DataError: The run is damaged, or not finished.
        RunFolderError: The folder is a link or a file.
        StorageError: A file cannot be written.
    """
    folder = Path(folder)
    refuse_links(folder)
    if (folder / CARD).exists():
        raise ArgumentError("folder", str(folder), f"a folder without {CARD}")
    name = name or folder.name
    if isinstance(run, Estimator):
        run.save(folder)
        card = model_card(name, RunFiles(folder).json(MODEL))
    else:
        files = RunFiles(run)
        described = base.read_description(files)
        metrics, details = (files.json(f) if files.has(f) else None for f in (METRICS, DETAILS))
        card = files.parsed(METRICS, lambda: model_card(name, asdict(described), metrics, details))
        base.load(run).save(folder)
        if metrics is not None:
            with RunFolder(folder, resume=True) as shared:
                shared.write_json(METRICS, metrics)
    atomic.write_text(folder / CARD, card)


def from_pretrained(
    name: str | Path,
    *,
    device: str = "cpu",
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
) -> Any:
    """Return the fitted estimator of a folder or a repository of the Hub.

    Args:
        name: A folder that `save_pretrained` or ``representer fit`` wrote, or a repository,
            ``"user/name"``.
        device: Device of its network.
        revision: Branch, tag or commit of the repository.
        token: Of the user, for a private repository; None takes the stored one.
        cache_dir: Where downloads are kept.
        local_files_only: Take them from there, without a connection.

    Raises:
        ArgumentError: There is no such device.
        DataError: The files cannot be downloaded, or hold no estimator.
        CheckpointError: The weights are damaged.
        MissingExtraError: huggingface_hub is not installed, and `name` is no folder.
    """
    with local_folder(
        name, _FILES, revision=revision, token=token, cache_dir=cache_dir,
        local_files_only=local_files_only,
    ) as folder:  # fmt: skip
        return base.load(folder, device=device)


def push_to_hub(
    run: str | Path | Estimator,
    repo_id: str,
    *,
    private: bool | None = None,
    token: str | None = None,
    commit_message: str = "Upload a model",
) -> str:
    """Upload what `save_pretrained` writes, and return the address of the commit.

    Args:
        run: The run folder, or a fitted estimator.
        repo_id: The repository, ``"user/name"``; it is made if it is missing.
        private: Make it for its owner only; None takes the default of the owner.
        token: Of the user; None takes the stored one.
        commit_message: The message.

    Raises:
        DataError: The run is damaged, or not finished.
        MissingExtraError: huggingface_hub is not installed.
    """
    with TemporaryDirectory() as parent:
        folder = Path(parent) / "model"
        save_pretrained(run, folder, name=repo_id)
        return upload(folder, repo_id, private, token, commit_message)


# The README of a shared run: data, scores with intervals, parts, how to load it, and limits.


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
    name: str, described: Mapping[str, Any], metrics: Mapping[str, Any] | None = None,
    details: Mapping[str, Any] | None = None,
) -> str:  # fmt: skip
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
    pipeline = [f"pipeline_tag: {_PIPELINES[task]}" for task in kinds if task in _PIPELINES][:1]
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
    yield f"{nouns}: {', '.join(f'{count:,} {noun}' for noun, count in counts.items())}."
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
    for target, scores in tested.items():
        rows = [{"name": scores["model"], **scores["test"]}]
        rows += [{**row, **row.get("test", {})} for other in BESIDE
                 for row in scores.get(other, ())]  # fmt: skip
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
    titles = dict(_MEASURES)
    if ranked := rows[0].get("ranked_class"):
        titles["average_precision"] += f" of {markdown(ranked)}"
    head = ["model", *(titles[name] for name in measures)]
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
    difference = row.get("difference")
    if not difference:
        return ""
    if isinstance(difference, Mapping):  # over subjects
        difference = difference["mean"], *difference["interval"]
    value, low, high = difference
    return f"{value:+.3g} [{low:+.3g}, {high:+.3g}]"


def _parts(metrics: Mapping[str, Any], details: Mapping[str, Any]) -> Iterator[str]:
    if sentence := parts_sentence(metrics.get("parts", {})):
        yield sentence
    for what, value in details.get("model", {}).get("values", {}).items():
        yield f"{markdown(what)}: {markdown(value)}"
    if sizes := metrics.get("parameters"):
        sizes = {"all": sizes} if isinstance(sizes, int) else sizes
        yield "parameters: " + ", ".join(f"{markdown(name)} {n:,}" for name, n in sizes.items())
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
