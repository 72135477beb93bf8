"""Write and load the run folder of a language model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from representer.data.language import LanguageVocabulary, Level
from representer.errors import DataError
from representer.models import LanguageModel, LanguageModelConfig, to_dict
from representer.storage.run_files import MODEL, RunFiles
from representer.storage.run_folder import RunFolder
from representer.tasks.language.language_config import LanguageConfig
from representer.tasks.language.language_data import LanguageData
from representer.tasks.options import as_yaml

TASK, VOCABULARY = "language", "vocabulary.json"


@dataclass(frozen=True)
class TrainedLanguage:
    """A trained language model with everything that its use needs.

    Attributes:
        model: In evaluation mode.
        vocabulary: Its tokens.
        level: Whether they are words or characters.
        encoding: Encoding of the training files.
    """

    model: LanguageModel
    vocabulary: LanguageVocabulary
    level: Level
    encoding: str


def write_inputs(
    run: RunFolder, config: LanguageConfig, data: LanguageData, model: LanguageModel
) -> None:
    """Write everything but the weights and the results."""
    run.write_text("config.yaml", as_yaml(config))
    run.write_text(VOCABULARY, data.corpus.vocabulary.to_json() + "\n")
    run.write_json("splits.json", {"sha256": data.digests, **data.report})
    described: dict[str, Any] = {
        "task": TASK,
        "model": to_dict(model.config),
        "level": config.level,
        "encoding": config.encoding,
    }
    run.write_json(MODEL, described)


@dataclass(frozen=True)
class _Described:
    """model.json of a language run."""

    task: Literal["language"]
    model: LanguageModelConfig
    level: Level
    encoding: str


def load_run(folder: str | Path) -> TrainedLanguage:
    """Read the language model of a run folder.

    Raises:
        DataError: If the folder holds no trained language model, or a damaged one.
        CheckpointError: If its weights are damaged.
    """
    files = RunFiles(folder)
    described = files.describe(TASK, "language model", _Described)
    vocabulary = _read_vocabulary(files)
    files.require(VOCABULARY, "tokens", len(vocabulary), described.model.vocabulary_size)
    model = files.load_model(lambda: LanguageModel(described.model))
    return TrainedLanguage(model, vocabulary, described.level, described.encoding)


def start_from(model: LanguageModel, folder: Path, vocabulary: LanguageVocabulary) -> None:
    """Load the best weights of a run into a model.

    Args:
        model: Of the same sizes; its dropout may differ.
        folder: The run.
        vocabulary: Vocabulary of the model's data.

    Raises:
        DataError: If the folder is no run, or its vocabulary differs.
        CheckpointError: If its weights are damaged or of another size.
    """
    files = RunFiles(folder)
    before = _read_vocabulary(files)
    if before.words != vocabulary.words:
        problem = (
            f"knows {len(before):,} other tokens than the data, which have {len(vocabulary):,}"
        )
        raise DataError(problem, file=folder, fix="Give the data of that run.")
    files.load_weights(model)


def _read_vocabulary(files: RunFiles) -> LanguageVocabulary:
    return LanguageVocabulary.from_json(files.text(VOCABULARY), file=files.folder / VOCABULARY)
