"""What a run folder of a language model holds, written at the start and read to use it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from representer.data.language import LanguageVocabulary, Level
from representer.errors import DataError
from representer.models import LanguageModel, LanguageModelConfig, from_dict, to_dict
from representer.tasks.language.language_config import LanguageConfig
from representer.tasks.language.language_data import LanguageData
from representer.tasks.options import as_yaml
from representer.tasks.storage.run_files import WEIGHTS, describe, load_weights, read
from representer.tasks.storage.run_folder import RunFolder

TASK = "language"


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
    run.write_text("vocabulary.json", data.corpus.vocabulary.to_json() + "\n")
    run.write_json("splits.json", {"sha256": data.digests, **data.report})
    described: dict[str, Any] = {
        "task": TASK,
        "model": to_dict(model.config),
        "level": config.level,
        "encoding": config.encoding,
    }
    run.write_json("model.json", described)


def load_run(folder: str | Path) -> TrainedLanguage:
    """Read the language model of a run folder.

    Raises:
        DataError: If the folder holds no trained language model.
        CheckpointError: If its weights are damaged.
    """
    folder = Path(folder)
    described = describe(folder)
    if described.get("task") != TASK:
        raise DataError("is no language model", file=folder / "model.json")
    model = LanguageModel(from_dict(LanguageModelConfig, described["model"]))
    load_weights(model, folder / WEIGHTS)
    vocabulary = LanguageVocabulary.from_json(read(folder / "vocabulary.json"), file=folder)
    return TrainedLanguage(model.eval(), vocabulary, described["level"], described["encoding"])


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
    before = LanguageVocabulary.from_json(read(folder / "vocabulary.json"), file=folder)
    if before.words != vocabulary.words:
        problem = (
            f"knows {len(before):,} other tokens than the data, which have {len(vocabulary):,}"
        )
        raise DataError(problem, file=folder, mend="Give the data of that run.")
    load_weights(model, folder / WEIGHTS)
