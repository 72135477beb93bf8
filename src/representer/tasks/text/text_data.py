"""Read, split and tokenize the data of a text run."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from representer.data.tables import LabelMap, split
from representer.data.text import (
    Preprocessing,
    Table,
    Vocabulary,
    check_labels,
    code_lines,
    read_table,
    truncation,
)
from representer.errors import ArgumentError, DataError
from representer.printable import say
from representer.tasks.text.text_config import ReadOptions, TextConfig

PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Part:
    """Documents of one part, in the order of their file.

    Attributes:
        source: Path of the file.
        texts: The texts as read.
        lines: Line in the file where each document starts.
        tokens: Words of each document, truncated to the maximum length.
        labels: Class of each document.
    """

    source: str
    texts: list[str]
    lines: list[int]
    tokens: list[list[str]]
    labels: list[int]

    def __len__(self) -> int:
        return len(self.texts)

    def subset(self, positions: Sequence[int]) -> Part:
        """Return the documents at these positions."""
        return Part(
            self.source,
            [self.texts[i] for i in positions],
            [self.lines[i] for i in positions],
            [self.tokens[i] for i in positions],
            [self.labels[i] for i in positions],
        )


@dataclass(frozen=True)
class TextData:
    """Data of a text run.

    Attributes:
        train: The training part.
        valid: The validation part.
        test: The test part.
        classes: Names of the classes.
        vocabulary: Words of the training part.
        report: Statistics of the data, for the report.
        digests: SHA-256 of every file, by its path.
        reading: How the files were read, columns and header as detected.
    """

    train: Part
    valid: Part
    test: Part
    classes: LabelMap
    vocabulary: Vocabulary
    report: dict[str, Any]
    digests: dict[str, str]
    reading: ReadOptions

    def splits(self) -> dict[str, Any]:
        """Return the lines of each part, as in splits.json."""
        parts = {name: getattr(self, name) for name in PARTS}
        lines = {name: {"file": p.source, "lines": p.lines} for name, p in parts.items()}
        return {"sha256": self.digests, **lines}


def prepare(config: TextConfig) -> TextData:
    """Read, check, split and tokenize the data, without writing anything.

    Raises:
        DataError: If the data cannot be used.
        ArgumentError: If there are no data.
    """
    if config.demo:
        main = code_lines()
    elif config.data is None:
        hint = "Without data of your own: representer fit text --demo"
        raise ArgumentError("data", None, "the path of a table", hint=hint)
    else:
        main = read_table(config.data, **asdict(config.reading))
    check_labels(main)
    detected = {"text": main.text_column, "label": main.label_column, "header": main.header}
    reading = replace(config.reading, **detected)
    tables = {"all": main}
    for name, path in (("valid", config.valid), ("test", config.test)):
        if path is not None:
            tables[name] = read_table(path, **asdict(reading))
    for table in tables.values():
        for line in (*table.notes, table.dropped_summary()):
            if line:
                say(f"{table.source}: {line}")
    classes = LabelMap.build(main.labels or ())
    words = Preprocessing(config.tokenizer, None, config.min_length)  # type: ignore[arg-type]
    read = {name: _part(table, classes, words) for name, table in tables.items()}
    parts = _divide({name: part for name, (part, _) in read.items()}, config)
    lengths = [len(tokens) for part in parts.values() for tokens in part.tokens]
    cut = truncation(lengths, config.max_length)
    say(str(cut))
    parts = {name: _cut(part, config.max_length) for name, part in parts.items()}
    vocabulary = Vocabulary.build(parts["train"].tokens, config.min_count)
    if len(vocabulary) == len(Vocabulary.MARKS):
        fix = "Lower min_count."
        raise DataError(f"no word occurs {config.min_count} times", file=main.source, fix=fix)
    digests = {table.source: _digest(table) for table in tables.values()}
    sources = [
        _source(name, table, short, digests[table.source])
        for (name, table), (_, short) in zip(tables.items(), read.values(), strict=True)
    ]
    report = {
        "sources": sources,
        "text_column": main.text_column,
        "label_column": main.label_column,
        **{name: len(part) for name, part in parts.items()},
        "classes": _class_counts(parts["train"].labels, classes),
        "vocabulary": len(vocabulary) - len(Vocabulary.MARKS),
        "unknown_share": _unknown_share(parts["test"].tokens, vocabulary),
        "median_length": sorted(lengths)[len(lengths) // 2],
        "longest": cut.longest,
        "truncated": cut.cut,
        "coverage": None,
    }
    return TextData(**parts, classes=classes, vocabulary=vocabulary, report=report,
                    digests=digests, reading=reading)  # fmt: skip


def encode_labels(table: Table, classes: LabelMap) -> list[int]:
    """Return the class of every document of a table.

    Raises:
        DataError: If a label is not among the classes; with file, line and column.
    """
    place = {"file": table.source, "column": table.label_column}
    rows = zip(table.labels or (), table.lines, strict=True)
    return [classes.encode(label, line=line, **place) for label, line in rows]


def _part(table: Table, classes: LabelMap, words: Preprocessing) -> tuple[Part, list[int]]:
    """Return the documents that are long enough, and the lines of the others."""
    labels = encode_labels(table, classes)
    tokens = words.apply(table.texts)
    if not tokens.kept:
        fix = "Is this the right column? Otherwise lower min_length."
        problem = f"no text has {words.min_tokens} words"
        raise DataError(problem, file=table.source, column=table.text_column, fix=fix)
    part = Part(
        table.source,
        [table.texts[i] for i in tokens.kept],
        [table.lines[i] for i in tokens.kept],
        tokens.documents,
        [labels[i] for i in tokens.kept],
    )
    return part, [table.lines[i] for i in tokens.too_short]


def _divide(read: dict[str, Part], config: TextConfig) -> dict[str, Part]:
    """Split the parts without their own file from the main one."""
    main = read["all"]
    wanted = {"valid": config.valid_fraction, "test": config.test_fraction}
    shares = {name: share for name, share in wanted.items() if name not in read}
    fractions = (1 - sum(shares.values()), *shares.values())
    try:
        division = split([str(label) for label in main.labels], fractions, config.seed)
    except DataError as error:
        raise DataError(str(error), file=main.source) from None
    names = ("train", *shares)
    parts = {name: main.subset(rows) for name, rows in zip(names, division, strict=True)}
    if len(set(parts["train"].labels)) < 2:
        fix = "Add documents of the other classes."
        raise DataError("only one class is left to train on", file=main.source, fix=fix)
    return {name: parts.get(name) or read[name] for name in PARTS}


def _cut(part: Part, length: int) -> Part:
    return replace(part, tokens=[tokens[:length] for tokens in part.tokens])


def _source(name: str, table: Table, short: list[int], digest: str) -> dict[str, Any]:
    lines: dict[str, list[int]] = {}
    for row in table.dropped:
        lines.setdefault(row.reason, []).append(row.line)
    if short:
        lines["too short"] = short
    return {
        "file": table.source,
        "role": {"all": "training, and parts without their own file"}.get(name, name),
        "sha256": digest,
        "rows": len(table) + len(table.dropped),
        "kept": len(table) - len(short),
        "dropped": [
            {"reason": reason, "count": len(at), "lines": at[:5]} for reason, at in lines.items()
        ],
    }


def _class_counts(labels: Sequence[int], classes: LabelMap) -> dict[str, int]:
    counts = Counter(labels)
    return {name: counts[number] for number, name in enumerate(classes.names)}


def _unknown_share(documents: Sequence[Sequence[str]], vocabulary: Vocabulary) -> float:
    total = sum(map(len, documents))
    unknown = sum(token not in vocabulary for tokens in documents for token in tokens)
    return unknown / max(1, total)


def _digest(table: Table) -> str:
    """Return the SHA-256 of the file, or of the documents if they do not come from a file."""
    path = Path(table.source)
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    rows = zip(table.texts, table.labels or (), strict=True)
    return hashlib.sha256(repr(list(rows)).encode()).hexdigest()
