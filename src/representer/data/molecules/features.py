"""Features of atoms and bonds as in L17, in two versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from representer.errors import ArgumentError

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond

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
    size: [{value: i for i, value in enumerate(part.listed)} for part in parts]
    for size, parts in _LISTS.items()
}


def check_features(size: int) -> int:
    """Return the length of a feature list if it exists.

    Raises:
        ArgumentError: If there is no list of this length.
    """
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
    values = tuple(part.value(atom) for part in parts)
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
    kind = bond.GetBondType().name.lower()
    return [
        *(float(kind == name) for name in BOND_FEATURES[:4]),
        float(bond.GetIsConjugated()),
        float(bond.IsInRing()),
    ]
