"""The Hugging Face Hub without a connection: recorded uploads, and repositories in its cache."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import huggingface_hub
import pytest

COMMIT = "0" * 40


def record_uploads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Copy what is uploaded to a folder, and return the mock of ``HfApi``, which checks calls."""
    api = create_autospec(huggingface_hub.HfApi)
    monkeypatch.setattr(huggingface_hub, "HfApi", api)

    def upload(**options: Any) -> str:
        ignored = shutil.ignore_patterns(options["ignore_patterns"])
        shutil.copytree(options["folder_path"], folder, ignore=ignored)
        return f"{options['repo_id']}: {options['commit_message']}"

    api.return_value.create_repo.side_effect = lambda repo_id, **_: huggingface_hub.RepoUrl(
        f"https://hub.example/{repo_id}", endpoint="https://hub.example"
    )
    api.return_value.upload_folder.side_effect = upload
    return api


def put_into_cache(folder: Path, cache: Path, repo_id: str) -> None:
    """Lay a folder out as a repository in the cache of huggingface_hub: links to its files."""
    repository = cache / f"models--{repo_id.replace('/', '--')}"
    shutil.copytree(folder, repository / "blobs")
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(COMMIT)
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for file in (repository / "blobs").iterdir():
        (snapshot / file.name).symlink_to(file)
