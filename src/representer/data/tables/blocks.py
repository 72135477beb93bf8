"""Division of the rows of a table into blocks, so that a table may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

Row = TypeVar("Row", bound=Sequence[object])
ROW = 100  # characters that take as much memory as a row without its content


class BlockSize(NamedTuple):
    """Number of characters that end a block; a row counts 100 more than its cells have.

    Attributes:
        head: Of the first block, from which properties such as the header are detected.
        rest: Of each other block.
    """

    head: int = 1 << 20
    rest: int = 1 << 20


SMALL = BlockSize()
DETECTION = BlockSize(head=64 << 20)
WHOLE = BlockSize(head=1 << 62)


def blocks(rows: Iterable[tuple[int, Row]], size: BlockSize) -> Iterator[list[tuple[int, Row]]]:
    """Yield the rows with their lines, in order, in blocks.

    A text in place of a row is the reason for which it is dropped; a row follows it in its block.
    """
    block, held, limit = list[tuple[int, Row]](), 0, size.head
    for line, row in rows:
        block.append((line, row))
        held += ROW + sum(len(cell) for cell in row if isinstance(cell, str))
        if held >= limit and not isinstance(row, str):
            yield block
            block, held, limit = [], 0, size.rest
    if block:
        yield block
