"""Trained runs and fitted estimators in folders to share, and on the Hugging Face Hub."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from representer.errors import ArgumentError
from representer.estimators import base
from representer.estimators.base import Estimator
from representer.models.hub import CARD, local_folder, upload
from representer.report.model_card import model_card
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
        base.save(run, folder)
        card = model_card(name, RunFiles(folder).json(MODEL))
    else:
        files = RunFiles(run)
        described = base.read_description(files)
        metrics, details = (files.json(f) if files.has(f) else None for f in (METRICS, DETAILS))
        card = files.parsed(METRICS, lambda: model_card(name, asdict(described), metrics, details))
        base.save(base.load(run), folder)
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
