"""Molecules in the live view: a drawing with the contributions of atoms, and other atoms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from representer.data.molecules import invalid_reason, parse_smiles
from representer.estimators.explanation import Explanation
from representer.report.molecule_drawing import draw_shares
from representer.serving.live.kind import Change, Json, Kind, by_place

if TYPE_CHECKING:
    from rdkit.Chem import RWMol

ELEMENTS = {"C": 6, "N": 7, "O": 8, "F": 9, "S": 16, "Cl": 17, "Br": 35}
_STYLE = re.compile(r"""\sstyle=(['"])(.*?)\1""", re.DOTALL)


class Molecules(Kind):
    """Molecules as SMILES."""

    prompt = "SMILES"
    place = "atom"
    sample = "CC(=O)Oc1ccccc1C(=O)O"

    @property
    def has_changes(self) -> bool:
        """True if other atoms can be tried."""
        return True

    def places(self, one: str) -> Sequence[str]:
        """Return the elements of the atoms with their numbers."""
        return self.model.estimator._node_names(one)

    def picture(self, one: str, explanation: Explanation) -> Json:
        """Return a drawing as SVG without style attributes, which the page's policy forbids."""
        atoms = [sum(own) for own in by_place(explanation, len(self.places(one)))]
        shares: Json = {"atoms": atoms, "bonds": []}
        drawn = draw_shares(parse_smiles(one), shares)
        if not drawn.startswith("<svg"):
            return {"notes": [drawn]}
        return {"drawing": _STYLE.sub(_as_attributes, drawn)}

    def changes(self, one: str, place: int) -> Iterable[Change]:
        """Return molecules with another element, one more atom, or without the atom."""
        from rdkit import Chem, rdBase

        found: dict[str, str] = {}
        original = Chem.MolToSmiles(parse_smiles(one))
        with rdBase.BlockLogs():
            for name, edit in _edits(one, place):
                molecule = Chem.RWMol(parse_smiles(one))
                Chem.Kekulize(molecule, clearAromaticFlags=True)
                edit(molecule)
                try:
                    Chem.SanitizeMol(molecule)
                except (Chem.AtomValenceException, Chem.KekulizeException):
                    continue  # no such molecule
                smiles = Chem.MolToSmiles(molecule)
                if smiles != original and not invalid_reason(smiles):
                    found.setdefault(smiles, name)
        return [Change(name, smiles) for smiles, name in found.items()]


def _edits(smiles: str, place: int) -> Iterable[tuple[str, Callable[[RWMol], object]]]:
    """Yield the name of each change of an atom, and the function that makes it."""
    atom = parse_smiles(smiles).GetAtomWithIdx(place)
    own = atom.GetSymbol()
    for element, number in ELEMENTS.items():
        if element != own:
            yield f"{element} instead", lambda m, n=number: _replace(m, place, n)
        yield f"add {element}", lambda m, n=number: _attach(m, place, n)
    if atom.GetDegree() == 1 and atom.GetOwningMol().GetNumAtoms() > 1:
        yield f"without {own}", lambda m: m.RemoveAtom(place)


def _replace(molecule: Any, place: int, number: int) -> None:
    atom = molecule.GetAtomWithIdx(place)
    atom.SetAtomicNum(number)
    atom.SetFormalCharge(0)
    atom.SetNumExplicitHs(0)
    atom.SetNoImplicit(False)
    atom.SetIsotope(0)


def _attach(molecule: Any, place: int, number: int) -> None:
    from rdkit import Chem

    atom = molecule.GetAtomWithIdx(place)
    if atom.GetNumExplicitHs():  # as in [nH]: the new atom takes the place of a hydrogen
        atom.SetNumExplicitHs(atom.GetNumExplicitHs() - 1)
    molecule.AddBond(place, molecule.AddAtom(Chem.Atom(number)), Chem.BondType.SINGLE)


def _as_attributes(found: re.Match[str]) -> str:
    """Return the properties of a style attribute as attributes of their own."""
    pairs = (part.split(":", 1) for part in found[2].split(";") if ":" in part)
    return "".join(f' {name.strip()}="{value.strip()}"' for name, value in pairs)
