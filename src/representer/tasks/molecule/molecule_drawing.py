"""Molecules drawn by RDKit, with the walks that an answer is made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from representer.explain import WalkContribution

if TYPE_CHECKING:
    from rdkit.Chem import Mol

WIDTH, HEIGHT = 260, 200
RAISES, LOWERS = (0.23, 0.51, 0.77), (0.85, 0.51, 0.13)  # of the page: blue and orange


def draw_walks(molecule: Mol, walks: Sequence[WalkContribution]) -> str:
    """Return a picture of a molecule as SVG: blue raises the answer, orange lowers it.

    Each share is spread over the atoms of its walk, and over its bonds; the strongest color is
    that of the largest sum. Lines and letters have the color of the page's text.

    Args:
        molecule: RDKit's.
        walks: Walks over its atoms with their shares.
    """
    from rdkit.Chem.Draw import rdMolDraw2D

    atoms: dict[int, float] = defaultdict(float)
    bonds: dict[int, float] = defaultdict(float)
    for walk, share in walks:
        for atom in walk:
            atoms[atom] += share / len(walk)
        for u, v in pairwise(walk):
            bonds[molecule.GetBondBetweenAtoms(u, v).GetIdx()] += share / (len(walk) - 1)
    drawing = rdMolDraw2D.MolDraw2DSVG(WIDTH, HEIGHT)
    options: Any = drawing.drawOptions()
    options.useBWAtomPalette()
    options.clearBackground = False
    options.fillHighlights = True
    options.highlightRadius = 0.35
    drawing.DrawMolecule(
        rdMolDraw2D.PrepareMolForDrawing(molecule),
        highlightAtoms=list(atoms),
        highlightAtomColors=_colors(atoms),
        highlightBonds=list(bonds),
        highlightBondColors=_colors(bonds),
    )
    drawing.FinishDrawing()
    text = drawing.GetDrawingText()
    text = text[text.index("<svg") :].replace("#000000", "currentColor")
    return text.replace("<svg", '<svg role="img" aria-label="molecule with its walks"', 1)


def _colors(shares: dict[int, float]) -> dict[int, tuple[float, ...]]:
    largest = max(map(abs, shares.values()), default=0.0) or 1.0
    return {
        place: (*(RAISES if share > 0 else LOWERS), 0.75 * abs(share) / largest)
        for place, share in shares.items()
    }
