"""Read, split and number the text of a language model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from representer.data.language import (
    PARTS,
    Corpus,
    cut,
    file_lines,
    find_parts,
    read_corpus,
    text_lines,
    topics,
)
from representer.data.language.corpus import Lines
from representer.errors import ArgumentError, DataError
from representer.tasks.language.language_config import LanguageConfig


@dataclass(frozen=True)
class LanguageData:
    """The data of a run.

    Attributes:
        corpus: Train, valid and test.
        source: Path or description of their source.
        digests: SHA-256 of the tokens of each part.
    """

    corpus: Corpus
    source: str
    digests: dict[str, str]

    @property
    def report(self) -> dict[str, Any]:
        """Counts of tokens, lines and unknown tokens for the report."""
        vocabulary = self.corpus.vocabulary
        parts = {name: self._counts(self.corpus.part(name)) for name in PARTS}
        return {"source": self.source, "vocabulary": len(vocabulary), "parts": parts}

    def _counts(self, tokens: Tensor) -> dict[str, int]:
        vocabulary = self.corpus.vocabulary
        marks = {"lines": vocabulary.END, "unknown": vocabulary.UNKNOWN}
        counts = {name: int((tokens == mark).sum()) for name, mark in marks.items()}
        return {"tokens": len(tokens), **counts}


def prepare(config: LanguageConfig) -> LanguageData:
    """Read, split and number the text; nothing is written.

    Raises:
        DataError: If the data cannot be used.
        ArgumentError: If no data are named.
    """
    sources, name = _sources(config)
    corpus = read_corpus(
        sources,
        config.level,  # type: ignore[arg-type]
        min_count=config.min_count,
        max_vocabulary=config.max_vocabulary or None,
    )
    _check(corpus, config, name)
    digests = {
        part: hashlib.sha256(corpus.part(part).numpy().tobytes()).hexdigest() for part in PARTS
    }
    return LanguageData(corpus, name, digests)


def _sources(config: LanguageConfig) -> tuple[dict[str, Lines], str]:
    """Return the lines of each part, and a description of their source."""
    if config.demo:
        lines, name = topics()
        return cut(lines, config.valid_fraction, config.test_fraction), name
    if config.data is None:
        hint = "Without data of your own: representer fit language --demo"
        raise ArgumentError("data", None, "the path of a text", hint=hint)
    path = Path(config.data)
    given = {"valid": config.valid, "test": config.test}
    files = {part: Path(file) for part, file in given.items() if file}
    if path.is_dir():
        files = find_parts(path) | files
    elif files:
        files["train"] = path
        if missing := [part for part in PARTS if part not in files]:
            hint = f"Add --{missing[0]} FILE."
            raise ArgumentError(missing[0], None, "a file, as for the other part", hint=hint)
    if files:
        return {part: file_lines(file, config.encoding) for part, file in files.items()}, str(path)
    lines = list(text_lines(path, config.encoding))
    try:
        return cut(lines, config.valid_fraction, config.test_fraction), str(path)
    except DataError as error:
        raise DataError(str(error), file=path) from None


def _check(corpus: Corpus, config: LanguageConfig, source: str) -> None:
    """Refuse a text that is too short for training."""
    vocabulary, needed = corpus.vocabulary, 2 * config.batch_size
    if len(vocabulary) == len(vocabulary.MARKS):
        fix = "Lower --min-count."
        raise DataError(f"no token occurs {config.min_count} times", file=source, fix=fix)
    if len(corpus.train) <= needed:
        fix = "Give a longer text, or a smaller --batch-size."
        problem = (
            f"{len(corpus.train)} tokens to train on; {config.batch_size} streams need more than "
            f"{needed}"
        )
        raise DataError(problem, file=source, fix=fix)
    for name in ("valid", "test"):
        if len(corpus.part(name)) < 2:
            raise DataError(f"the {name} part has {len(corpus.part(name))} token", file=source)
