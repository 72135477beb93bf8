"""Check that a language model fits into memory before building it."""

from __future__ import annotations

from pathlib import Path

from representer.errors import ArgumentError
from representer.tasks.language.language_config import LanguageConfig

_BYTES = 4  # of a float32
_COPIES = {"adam": 6, "sgd": 4, "nt-asgd": 6, "asgd": 6}
"""Weights, gradient, best and saved ones; moments, or means and the weights they stand for."""


def available() -> int | None:
    """Return the bytes of memory that are free to use; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        sizes = dict(line.split(":", 1) for line in lines)
        return 1024 * int(sizes["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return None


def check_memory(config: LanguageConfig, vocabulary_size: int, free: int | None) -> None:
    """Refuse a vocabulary whose embedding would not fit while it is trained.

    Args:
        config: Of the run.
        vocabulary_size: V.
        free: Bytes that may be used; None asks nothing.

    Raises:
        ArgumentError: If it needs more, with how much.
    """
    size = config.embedding_size or config.hidden_size
    weights = vocabulary_size * (size + 1) * _BYTES * _COPIES[config.optimizer]
    logits = 512 * vocabulary_size * _BYTES * 2  # as many rows as the softmax takes at a time
    if free is None or weights + logits <= free:
        return
    raise ArgumentError(
        "the vocabulary",
        f"{vocabulary_size:,} tokens of {size} numbers",
        f"less than {(weights + logits) / 2**30:.1f} GiB for it in training; "
        f"{free / 2**30:.1f} GiB are free",
        hint="Use --min-count, --max-vocabulary or a smaller --embedding-size.",
    )
