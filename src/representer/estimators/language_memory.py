"""Check that a language model fits into memory before building it."""

from __future__ import annotations

from pathlib import Path

from representer.errors import ArgumentError
from representer.estimators.language_parameters import LanguageParameters

_BYTES = 4  # of a float32
_COPIES = {"adam": 6, "sgd": 4, "nt-asgd": 6, "asgd": 6}
"""Weights, gradient, best and saved weights; moments, or averages and current weights."""


def available() -> int | None:
    """Return the available memory in bytes; None if the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        sizes = dict(line.split(":", 1) for line in lines)
        return 1024 * int(sizes["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return None


def check_memory(parameters: LanguageParameters, vocabulary_size: int, free: int | None) -> None:
    """Refuse a vocabulary whose embedding does not fit into memory in training.

    Args:
        parameters: Of the estimator.
        vocabulary_size: V.
        free: Available bytes; None for no check.

    Raises:
        ArgumentError: If it needs more; the message states the size.
    """
    size = parameters.embedding_size or parameters.hidden_size
    weights = vocabulary_size * (size + 1) * _BYTES * _COPIES[parameters.optimizer]
    logits = 512 * vocabulary_size * _BYTES * 2  # rows of the softmax at a time
    if free is None or weights + logits <= free:
        return
    raise ArgumentError(
        "the vocabulary",
        f"{vocabulary_size:,} tokens of {size} numbers",
        f"less than {(weights + logits) / 2**30:.1f} GiB for it in training; "
        f"{free / 2**30:.1f} GiB are free",
        hint="Raise min_count, or lower max_vocabulary or embedding_size.",
    )
