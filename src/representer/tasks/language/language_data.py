"""Read, split and encode the text of a language model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from representer.data.language import (
    PARTS,
    count_tokens,
    cut,
    file_lines,
    find_parts,
    text_lines,
    topics,
)
from representer.data.language.corpus import Lines
from representer.errors import ArgumentError, DataError
from representer.estimators import LanguageModel, saving
from representer.estimators.language_inputs import LanguageInputs
from representer.estimators.language_report import token_counts
from representer.estimators.language_training import check_texts
from representer.storage.run_files import MODEL
from representer.tasks.options import parameters_of


@dataclass(frozen=True)
class LanguageData:
    """The data of a run.

    Attributes:
        tokens: Tokens of the training, validation and test part ``(N,)``, by name.
        inputs: The vocabulary, and the level of the tokens.
        source: Path or description of their source.
    """

    tokens: dict[str, Tensor]
    inputs: LanguageInputs
    source: str

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of the tokens of each part."""
        return {
            part: hashlib.sha256(tokens.numpy().tobytes()).hexdigest()
            for part, tokens in self.tokens.items()
        }

    def splits(self) -> dict[str, Any]:
        """Return the digests and the counts of the parts, as in splits.json."""
        return {"sha256": self.digests, **self.report}

    @property
    def report(self) -> dict[str, Any]:
        """Counts of tokens, lines and unknown tokens for the report."""
        parts = {name: token_counts(self.inputs, tokens) for name, tokens in self.tokens.items()}
        size = len(self.inputs.vocabulary)
        return {"source": self.source, "vocabulary": size, "parts": parts}


def has_own_test(config: Any) -> bool:
    """Return True if the test text is a file of its own."""
    return bool(config.test) or (not config.demo and Path(config.data).is_dir())


def prepare(config: Any, shift: float = 0.0) -> tuple[LanguageModel, LanguageData]:
    """Read, split and encode the text; nothing is written.

    Args:
        config: The options of the run.
        shift: Fraction by which the lines of a single text are rotated before they are split.

    Returns:
        The estimator with the inputs of the text, or of the run that is resumed, and the data.

    Raises:
        DataError: If the data cannot be used.
        ArgumentError: If no data are named, the vocabulary does not fit into memory, or a
            parameter is out of its range.
    """
    estimator = LanguageModel(**parameters_of(config, LanguageModel))
    estimator.check()
    sources, name = _sources(config, shift)
    own_run = Path(config.out or "")
    if config.warm_start and config.resume and (own_run / MODEL).exists():
        inputs = saving.load_inputs(own_run, LanguageModel)  # the other run may be gone by now
    else:
        counts = count_tokens(sources["train"](), estimator.level)  # type: ignore[arg-type]
        with _naming(name):
            inputs = estimator.learn_inputs(counts)
    tokens = {part: inputs.encode(sources[part]()) for part in PARTS}
    estimator.inputs_ = inputs
    with _naming(name):
        check_texts(estimator, len(inputs.vocabulary), tokens["train"], tokens["valid"])
        if len(tokens["test"]) < 2:
            raise DataError(
                f"the test text has {len(tokens['test'])} token(s); at least 2 are needed"
            )
    return estimator, LanguageData(tokens, inputs, name)


@contextmanager
def _naming(source: str) -> Iterator[None]:
    """Add the source to an error of its content."""
    try:
        yield
    except DataError as error:
        raise DataError(str(error), file=source) from None


def _sources(config: Any, shift: float) -> tuple[dict[str, Lines], str]:
    """Return the lines of each part, and a description of their source."""
    fractions = config.valid_fraction, config.test_fraction
    if config.demo:
        lines, name = topics()
        return cut(_rotated(lines, shift), *fractions), name
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
    with _naming(str(path)):
        return cut(_rotated(lines, shift), *fractions), str(path)


def _rotated(lines: Sequence[str], shift: float) -> list[str]:
    start = round(shift * len(lines))
    return [*lines[start:], *lines[:start]]
