"""Base of models: plain configurations, checks of tokens, and folders here or on the Hub.

Weights are safetensors, the configuration is JSON.
"""

from __future__ import annotations

import difflib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_type_hints

import torch
from torch import Tensor, nn

from representer.checks import require
from representer.errors import (
    ArgumentError,
    DataError,
    KindError,
    MissingExtraError,
    ShapeError,
    markdown,
    one_line,
    reason,
)
from representer.storage import atomic
from representer.storage.run import MANIFEST, WEIGHTS, Entry, RunFiles, make_folder, manifest_text

# Conversion of configurations to plain values and back.

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Config = TypeVar("Config", bound=DataclassInstance)


def to_dict(config: DataclassInstance) -> dict[str, Any]:
    """Convert a configuration to values for JSON and YAML, with string keys.

    Args:
        config: Any configuration of this package.
    """
    return {name: _plain(value) for name, value in asdict(config).items()}


def from_dict(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """Create a configuration from the values of `to_dict`.

    Args:
        kind: The class of the configuration.
        values: The fields by name; those with a default are optional.

    Raises:
        ArgumentError: If a name is unknown, or a field without a default is missing.
    """
    names = {field.name: field for field in fields(kind)}
    for name in values:
        if name not in names:
            close = difflib.get_close_matches(str(name), names, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else ""
            raise ArgumentError(
                f"a key of {kind.__name__}", name, f"one of {', '.join(names)}", hint=hint
            )
    for name, field in names.items():
        is_required = field.default is MISSING and field.default_factory is MISSING
        if is_required and name not in values:
            raise ArgumentError(
                f"the keys of {kind.__name__}", sorted(map(str, values)), f"{name!r} among them"
            )
    return kind(**values)


def require_sizes(config: Any, *names: str, least: int = 1) -> None:
    """Require integers that JSON can hold, so none of NumPy."""
    expected = "a positive integer" if least == 1 else f"an integer of at least {least}"
    for name in names:
        value = getattr(config, name)
        require(config, name, type(value) is int and value >= least, expected)


def require_token(config: Any, name: str) -> None:
    """Require the id of a token of the vocabulary."""
    value, size = getattr(config, name), config.vocabulary_size
    require(config, name, type(value) is int and 0 <= value < size, f"a token id below {size}")


def _plain(value: Any) -> Any:
    if hasattr(value, "get_params"):  # a kernel; only such a model needs the extra of kernels
        from representer.kernels.composition import to_plain

        return to_plain(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


# Input checks and word vectors of the models of token sequences.


def check_tokens(tokens: Tensor, lengths: Tensor) -> None:
    """Check a padded batch of token ids."""
    if tokens.dim() != 2 or not tokens.shape[1]:
        hint = "Pad the sequences of a batch to one length, at least 1."
        raise ShapeError("tokens", tuple(tokens.shape), "(batch, time)", hint=hint)
    if lengths.shape != tokens.shape[:1]:
        raise ShapeError("lengths", tuple(lengths.shape), f"({tokens.shape[0]},)")
    for name, tensor in (("tokens", tokens), ("lengths", lengths)):
        if tensor.dtype not in (torch.int64, torch.int32):
            raise KindError(name, str(tensor.dtype), "int64", hint="Use .long().")
    # on a GPU this would synchronize; in the compiler it would break the graph
    if lengths.device.type == "cpu" and not torch.compiler.is_compiling():
        is_invalid = (lengths < 0) | (lengths > tokens.shape[1])
        if is_invalid.any():
            first = int(is_invalid.nonzero()[0])
            name = f"lengths[{first}]"
            raise ArgumentError(name, int(lengths[first]), f"a length from 0 to {tokens.shape[1]}")


def copy_vectors(embedding: nn.Embedding, vectors: Tensor, *, freeze: bool) -> None:
    """Copy word vectors to an embedding, except for the padding row."""
    weight = embedding.weight
    if vectors.shape != weight.shape:
        raise ShapeError("vectors", tuple(vectors.shape), f"{tuple(weight.shape)}")
    with torch.no_grad():
        weight.copy_(vectors)
        if embedding.padding_idx is not None:
            weight[embedding.padding_idx] = 0
    weight.requires_grad_(not freeze)


# Models in folders and on the Hugging Face Hub.

CARD, CONFIG = "README.md", "config.json"
_CARD = """---
library_name: representer
tags: [representer, pytorch]
---

# {name}

A `representer.models.{model}` with {parameters:,} parameters.

```python
from representer.models import {model}

model = {model}.from_pretrained({quoted})
```

`config.json` holds its configuration and `model.safetensors` its weights. Loading runs no code from
these files.
"""


class HubModel(nn.Module):
    """A model that is saved to a folder or the Hugging Face Hub, and loaded from it.

    The methods have the names and files of ``huggingface_hub.PyTorchModelHubMixin``, which takes
    long to import. Nothing is pickled, and weights of another name, shape or dtype are refused.

    Attributes:
        config: The configuration, the only argument of the model.
    """

    config: Any

    def save_pretrained(self, folder: str | Path, *, name: str = "") -> None:
        """Write ``config.json``, ``model.safetensors`` and, if there is none, ``README.md``.

        Args:
            folder: The folder, which is made if it is missing.
            name: Name of the model in the README; that of the folder without one.

        Raises:
            StorageError: A file cannot be written.
        """
        folder = Path(folder)
        make_folder(folder)
        files = {
            CONFIG: atomic.as_json(to_dict(self.config)).encode(),
            WEIGHTS: atomic.as_safetensors(self.state_dict()),
        }
        for file, content in files.items():
            atomic.write_bytes(folder / file, content)
        entries = {file: Entry.of([content]) for file, content in files.items()}
        atomic.write_text(folder / MANIFEST, manifest_text(entries))
        if not (folder / CARD).exists():
            size = sum(p.numel() for p in self.parameters())
            name = one_line(name or folder.name)
            words = {"name": markdown(name), "quoted": json.dumps(name, ensure_ascii=False)}
            text = _CARD.format(**words, model=type(self).__name__, parameters=size)
            atomic.write_text(folder / CARD, text)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
    ) -> Self:
        """Return the model of a folder or a repository of the Hub, in evaluation mode.

        Args:
            name: A folder that `save_pretrained` wrote, or a repository, ``"user/name"``.
            revision: Branch, tag or commit of the repository.
            token: Of the user, for a private repository; None takes the stored one.
            cache_dir: Where downloads are kept.
            local_files_only: Take them from there, without a connection.

        Raises:
            DataError: A file is missing or damaged, or cannot be downloaded.
            CheckpointError: The weights are not those of this model.
            MissingExtraError: huggingface_hub is not installed, and `name` is no folder.
        """
        with local_folder(
            name, [CONFIG, WEIGHTS, MANIFEST], revision=revision, token=token,
            cache_dir=cache_dir, local_files_only=local_files_only,
        ) as folder:  # fmt: skip
            files = RunFiles(folder)
            config = files.read(CONFIG, get_type_hints(cls.__init__)["config"])
            return files.load_model(lambda: cls(config), CONFIG)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        commit_message: str = "Upload a model",
    ) -> str:
        """Upload what `save_pretrained` writes, and return the address of the commit.

        Args:
            repo_id: The repository, ``"user/name"``; it is made if it is missing.
            private: Make it for its owner only; None takes the default of the owner.
            token: Of the user; None takes the stored one.
            commit_message: The message.

        Raises:
            MissingExtraError: huggingface_hub is not installed.
        """
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder, name=repo_id)
            return upload(folder, repo_id, private, token, commit_message)


class TokenModel(HubModel):
    """A model with an embedding of token ids."""

    embedding: nn.Embedding

    def set_vectors(self, vectors: Tensor, *, freeze: bool = False) -> None:
        """Initialize the embedding with word vectors.

        Args:
            vectors: ``(V, embedding_size)``; the padding row is ignored.
            freeze: Exclude them from training.

        Raises:
            ShapeError: If the shape is not that of the embedding.
        """
        copy_vectors(self.embedding, vectors, freeze=freeze)


@contextmanager
def local_folder(name: str | Path, files: list[str], **options: Any) -> Iterator[Path]:
    """Yield a folder, or a copy of files of a repository of the Hub.

    The cache of the Hub holds links, which are not followed when a run is read.

    Args:
        name: The folder, or the repository.
        files: Names of the files to download.
        options: Of ``huggingface_hub.snapshot_download``.

    Raises:
        MissingExtraError: huggingface_hub is not installed.
    """
    if Path(name).is_dir():
        yield Path(name)
        return
    try:
        cached = _hub().snapshot_download(str(name), allow_patterns=files, **options)
    except (OSError, ValueError) as error:
        problem = f"there is no such folder, and the Hub gives no such model: {reason(error)}"
        raise DataError(
            problem, file=name, fix="Name a folder, or a repository as USER/NAME."
        ) from error
    with TemporaryDirectory() as folder:
        for file in files:
            if (Path(cached) / file).is_file():
                shutil.copyfile(Path(cached) / file, Path(folder) / file)
        yield Path(folder)


def upload(
    folder: str | Path, repo_id: str, private: bool | None, token: str | None, message: str
) -> str:
    """Upload the files of a folder to a repository of the Hub, and return the commit's address."""
    api = _hub().HfApi(token=token)
    repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
    sent = api.upload_folder(
        repo_id=repo_id, folder_path=folder, commit_message=message, ignore_patterns=".*"
    )
    return str(sent)


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingExtraError("the Hub", "huggingface_hub", "train") from error
    return huggingface_hub
