"""Drawings of molecules with the contribution of each atom as a colored map, by RDKit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from representer.report.canvas import glow, not_drawn

if TYPE_CHECKING:
    from markupsafe import Markup
    from rdkit.Chem import Mol

SCALE = 30  # pixels per unit of length; a bond has 1.5
MOST_ATOMS = 300  # of a molecule that is drawn; RDKit takes 6 s for a chain of 1,000
REACH = 0.95  # of a glow, in bond lengths


def draw_shares(molecule: Mol, shares: Mapping[str, Any]) -> Markup | str:
    """Draw a molecule as SVG: blue atoms raise the prediction, red atoms lower it.

    The most saturated color is that of the largest contribution. Lines and letters have the text
    color of the page, and atoms have the numbers that the names of walks have.

    Args:
        molecule: The molecule.
        shares: ``atoms``, the contribution of each.

    Returns:
        The drawing; of a large molecule a sentence instead.

    Raises:
        ValueError: If they belong to another molecule.
    """
    from markupsafe import Markup
    from rdkit.Chem.Draw import rdMolDraw2D

    if len(shares["atoms"]) != molecule.GetNumAtoms():
        raise ValueError("the contributions belong to another molecule")
    if sentence := not_drawn(molecule.GetNumAtoms(), MOST_ATOMS, "atoms"):
        return sentence
    drawing = rdMolDraw2D.MolDraw2DSVG(-1, -1)  # as large as the molecule needs
    options: Any = drawing.drawOptions()
    options.useBWAtomPalette()
    options.clearBackground = False
    options.addAtomIndices = True
    options.annotationFontScale = 0.6
    options.padding = 0.1
    options.scalingFactor = SCALE
    drawing.DrawMolecule(rdMolDraw2D.PrepareMolForDrawing(molecule))
    drawing.FinishDrawing()
    places = [drawing.GetDrawCoords(atom) for atom in range(molecule.GetNumAtoms())]
    ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    lengths = [(places[u] - places[v]).Length() for u, v in ends]
    reach = REACH * (sum(lengths) / len(lengths) if lengths else 1.5 * SCALE)
    spots = [
        (place.x, place.y, float(share))
        for place, share in zip(places, shares["atoms"], strict=True)
    ]
    text = drawing.GetDrawingText()
    text = text[text.index("<svg") :].replace("#000000", "currentColor")
    start, end = text.index("<svg"), text.index(">") + 1
    label = '<svg role="img" aria-label="molecule, its atoms colored by their contributions"'
    opening = text[start:end].replace("<svg", label, 1)
    return Markup(opening) + glow(spots, reach) + Markup(text[end:])
