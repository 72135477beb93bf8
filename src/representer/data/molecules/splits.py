"""Splits of molecules: random, or by scaffold."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Literal

from representer.data.copies import digest_of
from representer.data.molecules.smiles import parse_smiles
from representer.data.tables import split
from representer.errors import ArgumentError, DataError, MissingExtraError

SPLITS = ("random", "scaffold")


def split_molecules(
    smiles: Sequence[str],
    fractions: Sequence[float],
    seed: int = 0,
    kind: Literal["random", "scaffold"] = "random",
    labels: Sequence[str] | None = None,
) -> tuple[list[int], ...]:
    """Divide molecules into parts.

    All copies of a molecule are in the same part. ``"scaffold"`` keeps all molecules with the same
    Bemis-Murcko scaffold together, so that test molecules differ more from training molecules.
    The largest scaffolds are assigned first, each to the first part with enough capacity, so the
    last parts have the rare scaffolds; the result does not depend on the seed.

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
    name = scaffold if kind == "scaffold" else canonical
    groups: dict[str, list[int]] = {}
    for position, molecule in enumerate(smiles):
        groups.setdefault(name(molecule), []).append(position)
    if kind == "scaffold":
        ordered = sorted(groups.values(), key=lambda group: (-len(group), group))
        parts = _fill(ordered, [fraction * len(smiles) for fraction in fractions])
    else:
        shuffled = list(groups.values())
        random.Random(f"split/{seed}").shuffle(shuffled)
        parts = _deal(shuffled, fractions)
    if not all(parts):
        sizes = " + ".join(str(len(part)) for part in parts)
        raise DataError(
            f"{len(smiles)} molecules in {len(groups)} groups cannot be divided by "
            f"{tuple(fractions)}: {sizes}",
            fix="Provide more molecules, larger fractions, or another split.",
        )
    return tuple(sorted(part) for part in parts)


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


def _fill(groups: Sequence[list[int]], limits: Sequence[float]) -> list[list[int]]:
    """Assign each group to the first part with enough capacity; that of the last is unlimited."""
    parts: list[list[int]] = [[] for _ in limits]
    for group in groups:
        fits = (i for i, limit in enumerate(limits) if len(parts[i]) + len(group) <= limit)
        parts[next(fits, len(parts) - 1)] += group
    return parts


def _deal(groups: Sequence[list[int]], fractions: Sequence[float]) -> list[list[int]]:
    """Assign each group to the part with the largest deficit so far."""
    parts: list[list[int]] = [[] for _ in fractions]
    counts = 0
    for group in groups:
        counts += len(group)
        deficit = [share * counts - len(part) for share, part in zip(fractions, parts, strict=True)]
        parts[deficit.index(max(deficit))] += group
    return parts
