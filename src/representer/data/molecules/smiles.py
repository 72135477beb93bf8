"""Conversion of SMILES to graphs with RDKit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from representer.errors import ArgumentError, MissingExtraError
from representer.kernels.graphs import Graph, Labels

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond, Mol
    from torch_geometric.data import Data

BOND_SIGNS = {"SINGLE": "", "DOUBLE": "=", "TRIPLE": "#", "AROMATIC": ":"}
STEREO = {"STEREOE": "E", "STEREOZ": "Z"}
CIP = "_CIPCode"  # where RDKit keeps R or S of an atom

LONGEST = 10_000  # characters; RDKit's time grows with the square of the number of rings
MOST_PATHS = 30_000  # of three or four bonds; a fullerene of 540 atoms has 6,480


def parse_smiles(smiles: str, name: str = "smiles") -> Mol:
    """Return the RDKit molecule of a SMILES; several fragments, as in a salt, are one molecule.

    Args:
        smiles: The molecule. Surrounding whitespace is ignored; other whitespace is an error, since
            RDKit would silently drop the rest.
        name: The name of the argument, for messages.

    Raises:
        ArgumentError: If the SMILES has no atoms, more than 10,000 characters, bonds as no molecule
            has them, or is invalid, with RDKit's reason.
        MissingExtraError: If RDKit is not installed.
    """
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise MissingExtraError("reading SMILES", "rdkit", "graph") from error
    text = smiles.strip()
    if len(text) > LONGEST:
        hint = f"It has {len(text):,} characters; at most {LONGEST:,} are parsed."
        raise ArgumentError(name, f"{text[:40]}...", "a valid SMILES", hint=hint)
    if not (text.isascii() and text.isprintable()) or " " in text:
        hint = "It contains whitespace or another invalid character."
        raise ArgumentError(name, smiles, "a valid SMILES", hint=hint)
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(text)
        if molecule is None:
            raise ArgumentError(name, smiles, "a valid SMILES", hint=_reason(smiles))
    if not molecule.GetNumAtoms():
        raise ArgumentError(name, smiles, "a molecule of at least one atom")
    if (count := _paths(molecule)) > MOST_PATHS:
        hint = f"It has {count:,} paths of three or four bonds; at most {MOST_PATHS:,} are read."
        raise ArgumentError(name, smiles, "a valid SMILES", hint=hint)
    return molecule


def _paths(molecule: Mol) -> int:
    """Return the number of walks of three or four bonds, the larger one, that never turn back.

    The time of torsions and of RDKit's connectivity descriptors grows with it.
    """
    if molecule.GetNumBonds() ** 3 <= MOST_PATHS:  # no molecule of so few bonds has more
        return 0
    degrees = [atom.GetDegree() for atom in molecule.GetAtoms()]
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    before, walks, counts = [1] * len(degrees), degrees, list[int]()
    for length in range(2, 5):
        longer = [-count * (d - (length > 2)) for count, d in zip(before, degrees, strict=True)]
        for u, v in bonds:
            longer[u] += walks[v]
            longer[v] += walks[u]
        before, walks = walks, longer
        counts.append(sum(walks) // 2)
    return max(counts[1:])


def read_smiles(smiles: str, name: str = "smiles") -> Graph:
    """Convert a molecule to a graph: atoms labeled by element, directed bonds by bond type.

    Args:
        smiles: The molecule; several fragments, as in a salt, are one graph.
        name: The name of the argument, for messages.

    Raises:
        ArgumentError: If the SMILES has no atoms or is invalid.
        MissingExtraError: If RDKit is not installed.
    """
    molecule = parse_smiles(smiles, name)
    ends, types = [], []
    for bond in molecule.GetBonds():
        u, v = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        ends += [(u, v), (v, u)]
        types += [str(bond.GetBondType())] * 2
    edge_index = torch.tensor(ends, dtype=torch.int64).reshape(-1, 2).T
    return Graph([atom.GetSymbol() for atom in molecule.GetAtoms()], edge_index, types)


def labeled_graphs(smiles: str) -> tuple[Graph, Graph]:
    """Return a molecule with two kinds of labels at its atoms, for `SubtreeKernel`.

    The first labels are elements. The second ones say more, as those of circular fingerprints do:
    ``CH3``, ``c`` (aromatic), ``NH3+1``, ``CH@R`` (a stereocenter), and ``=E`` or ``=Z`` for a
    double bond. Bonds are labeled in both, single ones by nothing.

    Args:
        smiles: The molecule.

    Raises:
        ArgumentError: If the SMILES has no atoms or is invalid.
        MissingExtraError: If RDKit is not installed.

    References:
        Rogers and Hahn, Extended-Connectivity Fingerprints, J. Chem. Inf. Model. 2010.
    """
    molecule = parse_smiles(smiles)
    graph = read_smiles(smiles)
    bonds = [BOND_SIGNS.get(str(bond), str(bond)) for bond in graph.edges or ()]
    atoms: Labels = [atom_label(atom) for atom in molecule.GetAtoms()]
    kinds = [STEREO.get(str(bond.GetStereo()), "") for bond in molecule.GetBonds() for _ in "uv"]
    described: Labels = [bond + name for bond, name in zip(bonds, kinds, strict=True)]
    plain: Labels = [*bonds]
    return Graph(graph.nodes, graph.edge_index, plain), Graph(atoms, graph.edge_index, described)


def atom_label(atom: Atom) -> str:
    """Return element, hydrogens, charge and chirality of an atom, such as ``CH@R``."""
    symbol = atom.GetSymbol()
    name = symbol.lower() if atom.GetIsAromatic() else symbol
    hydrogens, charge = atom.GetTotalNumHs(), atom.GetFormalCharge()
    if hydrogens:
        name += f"H{hydrogens}" if hydrogens > 1 else "H"
    if charge:
        name += f"{charge:+d}"
    return f"{name}@{atom.GetProp(CIP)}" if atom.HasProp(CIP) else name


def _reason(smiles: str) -> str:
    """Return the reason why RDKit rejects a SMILES, its grammar or its chemistry."""
    from rdkit import Chem

    molecule = Chem.MolFromSmiles(smiles.strip(), sanitize=False)
    if molecule is None:
        return "It has an open bracket or ring, or an unknown atom."
    try:
        problems = [problem.Message() for problem in Chem.DetectChemistryProblems(molecule)]
    except RuntimeError:  # of RDKit, for 99,999 hydrogens of an atom
        return "It has an impossible atom."
    return f"{' '.join(problems[0].split()).rstrip('.')}." if problems else ""


# Features of atoms and bonds as in L17, in two versions.

BOND_FEATURES = ("single", "double", "triple", "aromatic", "conjugated", "in a ring")

_COMMON = (
    "C", "N", "O", "S", "F", "Si", "P", "Cl", "Br", "Mg", "Na", "Ca", "Fe", "As", "Al", "I", "B",
    "V", "K", "Tl", "Yb", "Sb", "Sn", "Ag", "Pd", "Co", "Se", "Ti", "Zn", "H", "Li", "Ge", "Cu",
    "Au", "Ni", "Cd", "In", "Mn", "Zr", "Cr", "Pt", "Hg", "Pb",
)  # fmt: skip
_RARE = (
    "W", "Ru", "Nb", "Re", "Te", "Rh", "Tc", "Ba", "Bi", "Hf", "Mo", "U", "Sm", "Os", "Ir", "Ce",
    "Gd", "Ga", "Cs",
)  # fmt: skip
_OTHER = "other"


class _Part(NamedTuple):
    """A property of an atom as a one-hot code; unlisted values are encoded as the last."""

    name: str
    value: Callable[[Any], int | str]
    listed: Sequence[int | str]


def _element(*symbols: str) -> _Part:
    return _Part("", lambda atom: atom.GetSymbol(), (*symbols, _OTHER))


def _explicit_valence(atom: Atom) -> int:
    return atom.GetTotalValence() - atom.GetNumImplicitHs()


_NEIGHBORS = _Part("neighbors", lambda atom: atom.GetDegree(), range(6))
_HYDROGENS = _Part("hydrogens", lambda atom: atom.GetTotalNumHs(), range(5))
_EXPLICIT = _Part("explicit valence", _explicit_valence, range(1, 7))
_IMPLICIT = _Part("implicit valence", lambda atom: atom.GetNumImplicitHs(), range(6))

_LISTS: dict[int, tuple[_Part, ...]] = {
    62: (_element(*_COMMON), _NEIGHBORS, _HYDROGENS, _IMPLICIT),
    82: (_element(*_COMMON, *_RARE), _NEIGHBORS, _EXPLICIT, _IMPLICIT),
}
ATOM_FEATURES = {
    size: (*(f"{p.name} {value}".strip() for p in parts for value in p.listed), "aromatic")
    for size, parts in _LISTS.items()
}
_PLACES = {
    size: [{value: i for i, value in enumerate(p.listed)} for p in parts]
    for size, parts in _LISTS.items()
}


def check_features(size: int) -> int:
    """Return the length of a feature list if it exists."""
    if size not in _LISTS:
        raise ArgumentError("features", size, " or ".join(map(str, _LISTS)))
    return size


def atom_features(atom: Atom, size: int = 82) -> list[float]:
    """Return the binary features of an atom.

    The 82 features are those of L17's code: element (63), neighbors, explicit valence, implicit
    valence (6 each), aromatic. The 62 features are those of neural fingerprints: element (44),
    neighbors, hydrogens (5), implicit valence, aromatic. Unlisted elements and counts are encoded
    as the last entry.

    Args:
        atom: The RDKit atom.
        size: Length of the list; ``ATOM_FEATURES[size]`` names its entries.

    Raises:
        ArgumentError: If there is no list of this length.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 6.3, and the authors' code. Duvenaud et al., Convolutional Networks on Graphs for
        Learning Molecular Fingerprints, NeurIPS 2015.
    """
    parts = _LISTS[check_features(size)]
    values = tuple(p.value(atom) for p in parts)
    return list(_code(size, values, atom.GetIsAromatic()))


@lru_cache(maxsize=4096)  # few distinct codes cover most atoms
def _code(size: int, values: tuple[int | str, ...], is_aromatic: bool) -> tuple[float, ...]:
    features: list[float] = []
    for value, places in zip(values, _PLACES[size], strict=True):
        code = [0.0] * len(places)
        code[places.get(value, len(places) - 1)] = 1.0
        features += code
    return (*features, float(is_aromatic))


def bond_features(bond: Bond) -> list[float]:
    """Return the six binary ``BOND_FEATURES`` of a bond."""
    order = bond.GetBondType().name.lower()
    return [
        *(float(order == name) for name in BOND_FEATURES[:4]),
        float(bond.GetIsConjugated()),
        float(bond.IsInRing()),
    ]


# Molecules as PyG graphs.


def molecule_graph(molecule: Mol | str, features: int = 82) -> Data:
    """Return the graph of a molecule: its heavy atoms, and each bond in both directions.

    Args:
        molecule: An RDKit molecule or a SMILES. Several fragments, as in a salt, are one graph; a
            single atom has no edges.
        features: Length of the list of atom features, 62 or 82.

    Returns:
        ``Data`` with x ``(N, features)``, edge_index ``(2, E)`` and edge_attr ``(E, 6)``.

    Raises:
        ArgumentError: If there is no list of this length, or the SMILES is invalid or has no atoms,
            with RDKit's reason.
        MissingExtraError: If RDKit or PyG is not installed.
    """
    try:
        from torch_geometric.data import Data
    except ImportError as error:
        raise MissingExtraError("graphs of molecules", "torch_geometric", "graph") from error
    check_features(features)
    read = parse_smiles(molecule) if isinstance(molecule, str) else molecule
    ends: list[tuple[int, int]] = []
    bonds: list[list[float]] = []
    for bond in read.GetBonds():
        u, v = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        ends += [(u, v), (v, u)]
        bonds += [bond_features(bond)] * 2
    return Data(
        x=torch.tensor([atom_features(atom, features) for atom in read.GetAtoms()]),
        edge_index=torch.tensor(ends, dtype=torch.int64).reshape(-1, 2).T.contiguous(),
        edge_attr=torch.tensor(bonds).reshape(-1, len(BOND_FEATURES)),
    )


# Views, atom pairs, torsions and descriptors of a molecule, which a kernel compares.

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
