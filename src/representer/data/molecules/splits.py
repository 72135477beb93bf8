"""Splits of molecules: random, or by scaffold."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from representer.data.molecules.smiles import parse_smiles
from representer.data.molecules.table import MoleculeTable
from representer.data.splits import Splits, digest_of, split
from representer.errors import ArgumentError, DataError, MissingExtraError

SPLITS = ("random", "scaffold")


def split_molecules(
    smiles: Sequence[str], fractions: Sequence[float], seed: int = 0,
    kind: Literal["random", "scaffold"] = "random", labels: Sequence[str] | None = None,
) -> tuple[list[int], ...]:  # fmt: skip
    """Divide molecules into parts.

    All copies of a molecule are in the same part. ``"scaffold"`` keeps all molecules with the same
    Bemis-Murcko scaffold together, so that test molecules differ more from training molecules.
    The largest scaffolds are assigned first, each to the first part with enough capacity, so the
    last parts have the rare scaffolds; the result depends neither on the seed nor on the order of
    the scaffolds.

    Args:
        smiles: The molecules.
        fractions: The fraction of each part, for example ``(0.8, 0.1, 0.1)``; they sum to 1.
        seed: Determines a random split.
        kind: ``"random"`` or ``"scaffold"``.
        labels: The class of each molecule, which a random split keeps in proportion.

    Returns:
        The positions in each part, ascending.

    Raises:
        ArgumentError: If the fractions are not positive or do not sum to 1, or the kind is unknown.
        DataError: If a part would be empty.

    References:
        Bemis, Murcko, The Properties of Known Drugs 1: Molecular Frameworks, J. Med. Chem. 1996.
    """
    if not fractions or min(fractions) <= 0 or not math.isclose(sum(fractions), 1, abs_tol=1e-9):
        raise ArgumentError("fractions", tuple(fractions), "positive numbers that sum to 1")
    if kind not in SPLITS:
        raise ArgumentError("kind", kind, " or ".join(map(repr, SPLITS)))
    if labels is not None and kind == "random":
        digests = [digest_of(canonical(molecule)) for molecule in smiles]
        return split(labels, fractions, seed, digests).parts
    names = [(scaffold if kind == "scaffold" else canonical)(molecule) for molecule in smiles]
    splits = Splits(len(smiles), groups=names)
    parts = splits.largest_first(fractions) if kind == "scaffold" else splits.dealt(fractions, seed)
    if not all(parts):
        sizes = " + ".join(str(len(rows)) for rows in parts)
        raise DataError(
            f"{len(smiles)} molecules in {len({*names})} groups cannot be divided by "
            f"{tuple(fractions)}: {sizes}",
            fix="Provide more molecules, larger fractions, or another split.",
        )
    return tuple(sorted(rows) for rows in parts)


def canonical(smiles: str) -> str:
    """Return the canonical SMILES of a molecule."""
    from rdkit import Chem

    return Chem.MolToSmiles(parse_smiles(smiles))


def scaffold(smiles: str) -> str:
    """Return the Bemis-Murcko scaffold of a molecule, ``""`` if it has no rings."""
    molecule = parse_smiles(smiles)
    try:
        from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles
    except ImportError as error:
        raise MissingExtraError("scaffolds", "rdkit", "graph") from error
    return MurckoScaffoldSmiles(mol=molecule)


# Resampling of training examples, so that rare and common target values occur equally often.


class BalancedDraws:
    """The resampling of L17: draw a bin of the target, then use the next example of the bin.

    All bins have the same width; empty bins are never drawn. The examples of each bin are shuffled
    once and used in turn, across epochs. The examples of an epoch depend only on seed and epoch.

    Args:
        values: The target of each example.
        width: Width of a bin, in the unit of the target; L17's code uses 0.05.
        seed: Seed of the order and the draws.

    Raises:
        ArgumentError: If there are no examples, a value is not finite, or the width is not
            positive.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 6.3, and the authors' code.
    """

    def __init__(self, values: Sequence[float], width: float = 0.05, seed: int = 0) -> None:
        if not 0 < width < math.inf:
            raise ArgumentError("width", width, "a positive number")
        numbers = np.asarray(values, dtype=np.float64)
        if numbers.ndim != 1 or not len(numbers) or not np.isfinite(numbers).all():
            raise ArgumentError("values", numbers.shape, "at least one finite number")
        order = np.random.default_rng((seed, 0)).permutation(len(numbers))
        kinds = np.unique(np.floor(numbers / width), return_inverse=True)[1]
        by_bin = order[np.argsort(kinds[order], kind="stable")]
        self._seed = seed
        self._counts = np.bincount(kinds)
        self._bins = np.split(by_bin, np.cumsum(self._counts)[:-1])
        self._taken: list[NDArray[np.int64]] = [np.zeros(len(self._bins), dtype=np.int64)]

    @property
    def bins(self) -> int:
        """Return the number of non-empty bins."""
        return len(self._bins)

    def epoch(self, epoch: int, count: int | None = None) -> list[int]:
        """Return the examples of an epoch.

        Args:
            epoch: Number of the epoch, from 0.
            count: Number of draws in every epoch; by default the number of examples.
        """
        size = int(self._counts.sum()) if count is None else count
        while len(self._taken) <= epoch:  # number of examples used per bin
            drawn = self._draw(len(self._taken) - 1, size)
            self._taken.append(self._taken[-1] + np.bincount(drawn, minlength=self.bins))
        taken = self._taken[epoch].copy()
        examples = []
        for chosen in self._draw(epoch, size).tolist():
            members = self._bins[chosen]
            examples.append(int(members[taken[chosen] % len(members)]))
            taken[chosen] += 1
        return examples

    def _draw(self, epoch: int, count: int) -> NDArray[np.int64]:
        return np.random.default_rng((self._seed, 1, epoch)).integers(self.bins, size=count)


# Molecules assembled from fragments by RDKit, with a computed property.

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
