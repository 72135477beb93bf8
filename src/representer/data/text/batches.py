"""Padding and truncation of documents to one tensor."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from representer.data.text.words import Vocabulary
from representer.errors import ArgumentError


@dataclass(frozen=True)
class Truncation:
    """The effect of a limit on the length of documents."""

    max_length: int  # the limit
    documents: int  # number of documents
    cut: int  # number of truncated documents
    tokens: int  # number of tokens
    tokens_cut: int  # number of removed tokens
    longest: int  # length of the longest document

    def __str__(self) -> str:
        """Return a sentence for the user."""
        if not self.cut:
            return f"no document is longer than {self.max_length} tokens (longest {self.longest})"
        return (
            f"{self.cut:,} of {self.documents:,} documents are truncated to their first "
            f"{self.max_length} tokens; {self.tokens_cut / self.tokens:.1%} of tokens are removed"
        )


def truncation(lengths: Sequence[int], max_length: int) -> Truncation:
    """Return the effect of a limit on documents of the given lengths.

    Raises:
        ArgumentError: If ``max_length`` is less than 1.
    """
    _check(max_length)
    cut = [length - max_length for length in lengths if length > max_length]
    longest = max(lengths, default=0)
    return Truncation(max_length, len(lengths), len(cut), sum(lengths), sum(cut), longest)


def collate(
    documents: Sequence[Sequence[int]], max_length: int | None = None, multiple: int = 1
) -> tuple[Tensor, Tensor]:
    """Collate encoded documents into one tensor.

    Args:
        documents: The word ids of each document.
        max_length: Longer documents are truncated at the end; None keeps all tokens.
        multiple: T is rounded up to a multiple of this.

    Returns:
        The ids, padded at the end with ``Vocabulary.PAD``, and the lengths. There is at least
        one step, even for a batch of empty documents.

    Shape:
        - tokens: ``(B, T)``, int64
        - lengths: ``(B,)``, int64

    Raises:
        ArgumentError: If there are no documents or ``max_length`` is less than 1.
    """
    if not documents:
        raise ArgumentError("documents", documents, "one document or more")
    if max_length is not None:
        _check(max_length)
    heads = [document[:max_length] for document in documents]
    lengths = [len(head) for head in heads]
    steps = -(-max(1, *lengths) // multiple) * multiple
    rows = [[*head, *[Vocabulary.PAD] * (steps - len(head))] for head in heads]
    return torch.tensor(rows, dtype=torch.int64), torch.tensor(lengths, dtype=torch.int64)


def _check(max_length: int) -> None:
    if max_length < 1:
        raise ArgumentError("max_length", max_length, "1 or more")


# Batches of documents of similar length, in a random order determined by the seed.


def length_buckets(
    lengths: Sequence[int], batch_size: int, seed: int, epoch: int, *, bucket: int = 50
) -> list[list[int]]:
    """Return the batches of an epoch, as positions of documents.

    The documents are shuffled and split into pools of ``bucket`` batches; each pool is sorted by
    length and split into batches; then all batches are shuffled. Each document is in exactly one
    batch, and all batches but one are full. The result depends only on the arguments, so an
    interrupted epoch can be resumed.

    Args:
        lengths: The length of each document.
        batch_size: Number of documents in a batch.
        seed: The seed of the run.
        epoch: The number of the epoch; each epoch has a different order.
        bucket: Number of batches in a pool. 1 gives random batches; larger pools, less padding.

    Raises:
        ArgumentError: If ``batch_size`` or ``bucket`` is less than 1.
    """
    for name, value in (("batch_size", batch_size), ("bucket", bucket)):
        if value < 1:
            raise ArgumentError(name, value, "1 or more")
    rng = random.Random(f"{seed}/{epoch}")
    order = list(range(len(lengths)))
    rng.shuffle(order)
    batches = []
    pool_size = bucket * batch_size
    for start in range(0, len(order), pool_size):
        pool = sorted(order[start : start + pool_size], key=lambda document: lengths[document])
        batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
    rng.shuffle(batches)
    return batches


# Batches of documents of equal length, in a random order determined by the seed.


def equal_lengths(
    lengths: Sequence[int], batch_size: int, seed: int, epoch: int
) -> list[list[int]]:
    """Return the batches of an epoch, as positions of documents; no batch needs padding.

    The documents of each length are shuffled and split into batches, the last of which may be
    smaller; then all batches are shuffled. Each document is in exactly one batch. The result
    depends only on the arguments, so an interrupted epoch can be resumed.

    Args:
        lengths: The length of each document.
        batch_size: Maximum number of documents in a batch.
        seed: The seed of the run.
        epoch: The number of the epoch; each epoch has different batches.

    Raises:
        ArgumentError: If ``batch_size`` is less than 1.
    """
    if batch_size < 1:
        raise ArgumentError("batch_size", batch_size, "1 or more")
    rng = random.Random(f"{seed}/{epoch}")
    by_length: dict[int, list[int]] = {}
    for document, length in enumerate(lengths):
        by_length.setdefault(length, []).append(document)
    batches = []
    for _, documents in sorted(by_length.items()):
        rng.shuffle(documents)
        batches += [
            documents[start : start + batch_size] for start in range(0, len(documents), batch_size)
        ]
    rng.shuffle(batches)
    return batches
