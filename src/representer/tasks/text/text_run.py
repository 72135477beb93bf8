"""What a run folder of a text classification holds, written at the start and read to use it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from representer.data.text import LabelMap, Vocabulary, tokenize
from representer.errors import CheckpointError, DataError
from representer.models import SequenceClassifier, SequenceClassifierConfig, from_dict, to_dict
from representer.tasks.storage.run_folder import RunFolder
from representer.tasks.text.text_config import ReadOptions, TextConfig
from representer.tasks.text.text_data import TextData

WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class TrainedText:
    """A trained classifier with all that is needed to ask it.

    Attributes:
        model: In evaluation mode.
        vocabulary: Words that it knows.
        classes: What it answers.
        reading: How the training data were read, columns as found.
        tokenizer: How a text becomes words.
        max_length: Words that it reads of a text.
    """

    model: SequenceClassifier
    vocabulary: Vocabulary
    classes: LabelMap
    reading: ReadOptions
    tokenizer: str
    max_length: int

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the numbers of the words of each text."""
        words = (tokenize(text, self.tokenizer) for text in texts)  # type: ignore[arg-type]
        return [self.vocabulary.encode(tokens[: self.max_length]) for tokens in words]


def write_inputs(
    run: RunFolder, config: TextConfig, data: TextData, model: SequenceClassifier
) -> None:
    """Write what a run is made of: all but the weights and the results."""
    run.write_text("config.yaml", as_yaml(config))
    run.write_text("vocabulary.json", data.vocabulary.to_json() + "\n")
    run.write_text("labels.json", data.classes.to_json() + "\n")
    run.write_json("splits.json", data.splits())
    described = {
        "task": "text",
        "model": to_dict(model.config),
        "reading": asdict(data.reading),
        "tokenizer": config.tokenizer,
        "max_length": config.max_length,
    }
    run.write_json("model.json", described)


def as_yaml(config: TextConfig) -> str:
    """Return the options of a run, as ``--config`` reads them."""
    import yaml

    options = {k: v for k, v in config.to_dict().items() if v is not None and k != "resume"}
    return yaml.safe_dump(options, sort_keys=False, allow_unicode=True)


def load_run(folder: str | Path) -> TrainedText:
    """Read the classifier of a run folder.

    Raises:
        DataError: If the folder holds no trained text classifier.
        CheckpointError: If its weights are damaged.
    """
    folder = Path(folder)
    if not folder.is_dir():
        mend = "Name the folder that `representer fit text ... --out` wrote."
        raise DataError("there is no such run folder", file=folder, mend=mend)
    described = _read_json(folder / "model.json")
    if described.get("task") != "text":
        raise DataError("is no text classifier", file=folder / "model.json")
    model = SequenceClassifier(from_dict(SequenceClassifierConfig, described["model"]))
    _load_weights(model, folder / WEIGHTS)
    return TrainedText(
        model=model.eval(),
        vocabulary=Vocabulary.from_json(_read(folder / "vocabulary.json"), file=folder),
        classes=LabelMap.from_json(_read(folder / "labels.json"), file=folder),
        reading=ReadOptions(**described["reading"]),
        tokenizer=described["tokenizer"],
        max_length=described["max_length"],
    )


def _load_weights(model: SequenceClassifier, path: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        mend = "Train it to its first evaluation: representer fit text ... --resume"
        raise DataError("there are no weights yet", file=path, mend=mend)
    try:
        model.load_state_dict(load_file(path))
    except (SafetensorError, RuntimeError, OSError) as error:
        first = str(error).strip().splitlines()[0]
        raise CheckpointError(f"{path} does not hold this model's weights: {first}") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(_read(path))
    except ValueError as error:
        raise DataError(f"is damaged ({error})", file=path, mend="Train again.") from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        mend = "Name the folder that `representer fit text ... --out` wrote."
        raise DataError(
            f"there is no {path.name}; this is no run", file=path.parent, mend=mend
        ) from None
