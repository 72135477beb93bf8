"""Views, atom pairs, torsions and descriptors of a molecule, which a kernel compares."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from representer.data.molecules.smiles import atom_label, labeled_graphs, parse_smiles
from representer.errors import MissingExtraError
from representer.kernels.graphs import Graph, Labels

BINS = {"PEOE_VSA": 14, "SMR_VSA": 10, "SlogP_VSA": 12}  # surface by charge, refractivity, logP
FEATURES = ("donor", "acceptor", "aromatic", "halogen", "basic", "acidic")  # of RDKit's invariants
Result = TypeVar("Result")
FARTHEST = 30  # bonds between the atoms of a pair


class ReadOnce(str):
    """A SMILES with which views, pairs, torsions and descriptors are kept once they are computed.

    Several targets of the same molecules are thus fitted for the reading of one.
    """


def _kept(compute: Callable[[str], Result]) -> Callable[[str], Result]:
    """Keep the result with a SMILES that is a `ReadOnce`."""

    @wraps(compute)
    def read(smiles: str) -> Result:
        if not isinstance(smiles, ReadOnce):
            return compute(smiles)
        memory = vars(smiles)
        if compute.__name__ not in memory:
            memory[compute.__name__] = compute(smiles)
        return memory[compute.__name__]

    return read


_molecule = lru_cache(maxsize=8)(parse_smiles)  # each is read for its views, pairs and descriptors


@_kept
def molecule_views(smiles: str) -> tuple[Graph, Graph, Graph]:
    """Return a molecule labeled by element, by neighborhood, and by what its atoms can bind to.

    The first two are those of `labeled_graphs`. The labels of the third are ``donor`` and
    ``acceptor`` of a hydrogen bond, ``aromatic``, ``halogen``, ``basic`` and ``acidic``.

    Raises:
        ArgumentError: If the SMILES has no atoms or is invalid.

    References:
        Gobbi and Poppinger, Genetic Optimization of Combinatorial Libraries, Biotechnology and
        Bioengineering 1998, for the features.
    """
    from rdkit.Chem.rdMolDescriptors import GetFeatureInvariants

    elements, atoms = labeled_graphs(smiles)
    bits = [int(x) for x in GetFeatureInvariants(_molecule(smiles))]
    names: Labels = [
        "+".join(name for i, name in enumerate(FEATURES) if x >> i & 1) or "other" for x in bits
    ]
    return elements, atoms, Graph(names, elements.edge_index, elements.edges)


@_kept
def atom_pairs(smiles: str) -> list[tuple[str, tuple[int, ...]]]:
    """Return each pair of atoms with the number of bonds between them, such as ``OH 3 c``.

    References:
        Carhart et al., Atom Pairs as Molecular Features in Structure-Activity Studies, 1985.
    """
    from rdkit.Chem import GetDistanceMatrix

    molecule = _molecule(smiles)
    labels = [atom_label(atom) for atom in molecule.GetAtoms()]
    apart = GetDistanceMatrix(molecule).astype(int).tolist()
    return [
        (f"{min(a, b)} {apart[i][j]} {max(a, b)}", (i, j))
        for (i, a), (j, b) in combinations(enumerate(labels), 2)
        if apart[i][j] <= FARTHEST
    ]


@_kept
def torsions(smiles: str) -> list[tuple[str, tuple[int, ...]]]:
    """Return each path of four atoms, such as ``CH3-CH2-c-cH``.

    References:
        Nilakantan et al., Topological Torsion: A New Molecular Descriptor for SAR Applications,
        1987.
    """
    molecule = _molecule(smiles)
    labels = [atom_label(atom) for atom in molecule.GetAtoms()]
    around = [[x.GetIdx() for x in atom.GetNeighbors()] for atom in molecule.GetAtoms()]
    result = []
    for bond in molecule.GetBonds():
        j, k = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        paths = ((i, j, k, m) for i in around[j] for m in around[k])
        for path in (p for p in paths if len(set(p)) == len(p)):
            names = [labels[node] for node in path]
            result.append(("-".join(min(names, names[::-1])), path))
    return result


@lru_cache(maxsize=1)
def _properties() -> Any:
    try:
        from rdkit.Chem.rdMolDescriptors import Properties
    except ImportError as error:
        raise MissingExtraError("descriptors", "rdkit", "graph") from error
    return Properties()


@lru_cache(maxsize=1)
def descriptor_names() -> tuple[str, ...]:
    """Return RDKit's name of each descriptor that `descriptors` returns.

    Raises:
        MissingExtraError: If RDKit is not installed.
    """
    binned = (f"{name}{i}" for name, count in BINS.items() for i in range(1, count + 1))
    return (*_properties().GetPropertyNames(), *binned)


@_kept
def descriptors(smiles: str) -> NDArray[np.float64]:
    """Return the descriptors of a molecule ``(D,)``; what RDKit cannot compute is NaN.

    Args:
        smiles: The molecule.

    Raises:
        ArgumentError: If the SMILES has no atoms or is invalid.
        MissingExtraError: If RDKit is not installed.
    """
    from rdkit.Chem import rdMolDescriptors

    molecule = _molecule(smiles)
    surfaces = (getattr(rdMolDescriptors, f"{name}_")(molecule) for name in BINS)
    values = [*_properties().ComputeProperties(molecule), *(x for s in surfaces for x in s)]
    return np.array(values, np.float64)
