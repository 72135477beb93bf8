"""Molecules assembled from fragments by RDKit, with a computed property."""

from __future__ import annotations

import random
from itertools import product

from representer.data.molecules.table import MoleculeTable
from representer.errors import MissingExtraError

CORES = (
    "[*:1]c1ccc([*:2])cc1", "[*:1]c1cccc([*:2])c1", "[*:1]c1ccc([*:2])nc1", "[*:1]c1ccc([*:2])s1",
    "[*:1]C1CCC([*:2])CC1", "[*:1]C1CCN([*:2])CC1", "[*:1]CC[*:2]", "[*:1]CCOC[*:2]",
    "[*:1]C(=O)N[*:2]", "[*:1]/C=C/[*:2]", "[*:1]c1ccc2cc([*:2])ccc2c1", "[*:1]C1CC1[*:2]",
)  # fmt: skip
ENDS = (
    "C", "CC", "C(C)C", "CO", "CCO", "CN", "C(F)(F)F", "C#N", "C(=O)O", "C(=O)OC", "C(=O)NC",
    "CS(C)(=O)=O", "c1ccccc1", "c1ccncc1", "c1ccc(Cl)cc1", "c1ccc(O)cc1", "C1CCCCC1", "C1CCOC1",
    "CBr", "C(N)=O",
)  # fmt: skip
PROPERTY = "QED"


def assembled_molecules(count: int = 600, seed: int = 0) -> MoleculeTable:
    """Return molecules made of a core and two ends, each with its drug-likeness (QED).

    Nothing is downloaded: RDKit joins the fragments and computes the property, a number in [0, 1]
    that combines eight properties of the whole molecule.

    Args:
        count: Number of molecules, up to a few thousand.
        seed: Determines the selection.

    Raises:
        MissingExtraError: If RDKit is not installed.

    References:
        Bickerton et al., Quantifying the chemical beauty of drugs, Nature Chemistry 2012.
    """
    try:
        from rdkit import Chem
        from rdkit.Chem.QED import qed
    except ImportError as error:
        raise MissingExtraError("assembling molecules", "rdkit", "graph") from error
    recipes = list(product(CORES, ENDS, ENDS))
    random.Random(f"assembled/{seed}").shuffle(recipes)
    properties: dict[str, str] = {}
    for core, first, second in recipes:
        if len(properties) == count:
            break
        parts = Chem.MolFromSmiles(f"{core}.[*:1]{first}.[*:2]{second}")
        molecule = Chem.molzip(parts)
        Chem.SanitizeMol(molecule)
        properties[Chem.MolToSmiles(molecule)] = f"{qed(molecule):.5f}"
    lines = list(range(1, len(properties) + 1))  # there is no file: the number of the molecule
    values = [(value,) for value in properties.values()]
    name = "molecules assembled by RDKit"
    return MoleculeTable(list(properties), values, lines, "smiles", (PROPERTY,), [], name, [])
