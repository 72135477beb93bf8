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
    """A trained language model with all that is needed to ask it.

    Attributes:
        model: In evaluation mode.
        vocabulary: Tokens that it knows.
        level: Whether they are words or characters.
        encoding: Of the files that it was trained on.
    """

    model: LanguageModel
    vocabulary: LanguageVocabulary
    level: Level
    encoding: str


def write_inputs(
    run: RunFolder, config: LanguageConfig, data: LanguageData, model: LanguageModel
) -> None:
    """Write what a run is made of: all but the weights and the results."""
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
    """Give a model the best weights of a run.

    Args:
        model: Of the same sizes; its dropouts may be others.
        folder: The run.
        vocabulary: Of the model's data.

    Raises:
        DataError: If the folder is no run, or its tokens are others.
        CheckpointError: If its weights are of a model of other sizes, or damaged.
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
