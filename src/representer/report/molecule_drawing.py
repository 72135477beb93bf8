"""Drawings of molecules with the contributions of walks, by RDKit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from representer.explain import WalkContribution

if TYPE_CHECKING:
    from rdkit.Chem import Mol

WIDTH, HEIGHT = 260, 200
RAISES, LOWERS = (0.23, 0.51, 0.77), (0.85, 0.51, 0.13)  # blue and orange, as on the page


def spread_walks(molecule: Mol, walks: Sequence[WalkContribution]) -> dict[str, Any]:
    """Divide each walk's contribution among its atoms and bonds, for `draw_shares`.

    Returns:
        ``atoms``, a contribution for each atom, and ``bonds``, pairs of a bond's number and its
        contribution.
    """
    atoms = [0.0] * molecule.GetNumAtoms()
    bonds: dict[int, float] = defaultdict(float)
    for walk, share in walks:
        for atom in walk:
            atoms[atom] += share / len(walk)
        for u, v in pairwise(walk):
            bonds[molecule.GetBondBetweenAtoms(u, v).GetIdx()] += share / (len(walk) - 1)
    return {"atoms": atoms, "bonds": list(bonds.items())}


def draw_shares(molecule: Mol, shares: Mapping[str, Any]) -> str:
    """Draw a molecule as SVG: blue parts raise the prediction, orange parts lower it.

    The most saturated color is that of the largest contribution. Lines and letters have the text
    color of the page.

    Raises:
        ValueError: If they belong to another molecule.
    """
    from rdkit.Chem.Draw import rdMolDraw2D

    if len(shares["atoms"]) != molecule.GetNumAtoms():
        raise ValueError("the contributions belong to another molecule")
    atoms = {atom: float(share) for atom, share in enumerate(shares["atoms"]) if share}
    bonds = {int(bond): float(share) for bond, share in shares["bonds"]}
    if any(not 0 <= bond < molecule.GetNumBonds() for bond in bonds):
        raise ValueError("the contributions belong to another molecule")
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
