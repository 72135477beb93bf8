"""A made-up text in the folder of a language data set."""

from __future__ import annotations

import lzma
import random
from pathlib import Path


def write_text(root: Path, name: str = "ptb") -> Path:
    """Write the three parts, one of them compressed, and return the folder above."""
    rng, folder = random.Random(0), root / name
    folder.mkdir(parents=True)
    words = ["the", "cat", "sat", "on", "a", "mat"]
    for part, lines in (("train", 40), ("valid", 6), ("test", 6)):
        text = "\n".join(" ".join(rng.choices(words, k=6)) for _ in range(lines)) + "\n"
        if part == "test":
            (folder / f"x.{part}.txt.xz").write_bytes(lzma.compress(text.encode()))
        else:
            (folder / f"x.{part}.txt").write_text(text, encoding="utf-8")
    return root
