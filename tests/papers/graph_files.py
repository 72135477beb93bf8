"""Tiny made-up data sets of graphs in their common text format."""

from __future__ import annotations

import lzma
from pathlib import Path


def write_graphs(root: Path, folder: str = "MUTAG", count: int = 40, tags: bool = True) -> Path:
    """Write paths and rings, of which rings are class 2, with ten folds; return the folder above.

    The first graph is in no test fold. Without tags all nodes have the same.
    """
    place = root / folder
    place.mkdir(parents=True)
    lines, folds = [str(count)], []
    for i in range(count):
        size, is_ring = 3 + i % 4, i % 2
        lines.append(f"{size} {2 * is_ring}")
        for v in range(size):
            around = {(v - 1) % size, (v + 1) % size}
            found = [u for u in sorted(around) if is_ring or abs(u - v) == 1]
            lines.append(" ".join(map(str, [(v + i) % 3 if tags else 0, len(found), *found])))
        folds.append(str(i // 2 % 10 + 1) if i else "")
    text = "\n".join(lines) + "\n"
    (place / f"{folder}.txt").write_text(text, encoding="utf-8")
    if not tags:  # compressed, as the larger ones are
        (place / f"{folder}.txt").unlink()
        with lzma.open(place / f"{folder}.txt.xz", "wt", encoding="utf-8") as file:
            file.write(text)
    (place / "fold.txt").write_text("\n".join(folds) + "\n", encoding="utf-8")
    return root
