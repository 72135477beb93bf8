"""A corpus: the encoded training, validation and test parts of a running text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from representer.data.language.lines import Level, count_tokens, encode_lines, text_lines
from representer.data.language.vocabulary import LanguageVocabulary
from representer.data.tables.source import COMPRESSIONS
from representer.errors import ArgumentError, DataError

PARTS = ("train", "valid", "test")
_NAMES = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}
_SUFFIXES = ("", ".txt", ".tokens", ".raw", ".text")
Lines = Callable[[], Iterable[str]]


@dataclass(frozen=True)
class Corpus:
    """The three parts of a text.

    Attributes:
        train: Token ids of the training part ``(N,)``.
        valid: Token ids of the validation part.
        test: Token ids of the test part.
        vocabulary: Tokens of the training part.
        level: Words or characters.
    """

    train: Tensor
    valid: Tensor
    test: Tensor
    vocabulary: LanguageVocabulary
    level: Level

    def part(self, name: str) -> Tensor:
        """Return the tokens of a part."""
        return {"train": self.train, "valid": self.valid, "test": self.test}[name]


def find_parts(folder: Path) -> dict[str, Path]:
    """Return the file of each part in a folder, recognized by its name.

    Args:
        folder: A folder with files such as ``ptb.train.txt``, ``valid.txt.xz`` and ``test.txt``.

    Raises:
        DataError: If a part has no file, or several.
    """
    found: dict[str, Path] = {}
    files = sorted(path for path in folder.iterdir() if path.is_file() and _is_text(path))
    for part in PARTS:
        matching = [path for path in files if _names_part(path, part)]
        if len(matching) != 1:
            what = ", ".join(path.name for path in matching) or "none"
            fix = "Name the files: representer fit language TRAIN --valid FILE --test FILE"
            raise DataError(
                f"expected one file of the {part} part; found {what}", file=folder, fix=fix
            )
        found[part] = matching[0]
    return found


def _is_text(path: Path) -> bool:
    stem = path.name.removesuffix(path.suffix) if path.suffix in COMPRESSIONS else path.name
    return Path(stem).suffix in _SUFFIXES


def _names_part(path: Path, part: str) -> bool:
    words = path.name.lower().replace("_", ".").replace("-", ".").split(".")
    return any(name in words for name in _NAMES[part])


def read_corpus(
    sources: Mapping[str, Lines],
    level: Level = "word",
    *,
    min_count: int = 1,
    max_vocabulary: int | None = None,
    vocabulary_of: Sequence[str] = ("train",),
) -> Corpus:
    """Build the vocabulary, and encode the lines of the three parts.

    Args:
        sources: For each part, a function that yields its lines; it is called twice.
        level: Words or characters.
        min_count: Tokens that occur less often are encoded as unknown.
        max_vocabulary: Maximum number of tokens, including the two special tokens.
        vocabulary_of: The parts whose tokens form the vocabulary.

    Raises:
        DataError: If a file is invalid.
        ArgumentError: If the limits exclude all tokens.
    """
    counts: Counter[str] = Counter()
    for part in vocabulary_of:
        counts.update(count_tokens(sources[part](), level))
    vocabulary = LanguageVocabulary.from_counts(counts, min_count, max_vocabulary)
    parts = {name: encode_lines(sources[name](), vocabulary, level) for name in PARTS}
    return Corpus(**parts, vocabulary=vocabulary, level=level)


def file_lines(path: str | Path, encoding: str = "utf-8") -> Lines:
    """Return a function that yields the lines of a file at each call."""
    return lambda: text_lines(path, encoding)


def cut(lines: Sequence[str], valid: float, test: float) -> dict[str, Lines]:
    """Split one text into training, validation and test lines, in this order.

    Args:
        lines: The lines of the text.
        valid: The fraction of the lines for validation.
        test: The fraction for testing.

    Raises:
        ArgumentError: If the fractions leave no lines for training.
        DataError: If there are too few lines.
    """
    if not (0 < valid < 1 and 0 < test < 1 and valid + test < 1):
        raise ArgumentError(
            "valid_fraction and test_fraction",
            (valid, test),
            "two positive fractions whose sum is below 1",
        )
    held, last = (max(1, round(share * len(lines))) for share in (valid, test))
    first = len(lines) - held - last
    if first < 1:
        fix = "Pass a longer text, or --valid FILE and --test FILE."
        raise DataError(f"{len(lines)} lines cannot be split into three parts", fix=fix)
    separator = first + held
    bounds = {"train": (0, first), "valid": (first, separator), "test": (separator, len(lines))}
    return {name: (lambda a=a, b=b: lines[a:b]) for name, (a, b) in bounds.items()}
