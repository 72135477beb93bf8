"""Letters of biological sequences: alphabets, ambiguous letters, and kernels of two letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.errors import ArgumentError

DNA, RNA, PROTEIN = "ACGT", "ACGU", "ARNDCQEGHILKMFPSTWYV"
ALPHABETS = {"dna": DNA, "rna": RNA, "protein": PROTEIN}
BASES = ("one-hot", "mismatch", "blosum62", "pam250")
MISMATCH = 0.3  # similarity of two different letters, of which equal ones have 1

# IUPAC-IUB codes of nucleotides (Cornish-Bowden, 1985) and of amino acids (1984).
_NUCLEOTIDES = {
    "R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC",
    "B": "CGT", "D": "AGT", "H": "ACT", "V": "ACG", "N": "ACGT",
}  # fmt: skip
_AMINO_ACIDS = {"B": "ND", "Z": "QE", "J": "IL", "X": PROTEIN, "U": "C", "O": "K"}

# Half-bits, of the rows and columns of PROTEIN: Henikoff and Henikoff, Amino Acid Substitution
# Matrices from Protein Blocks, PNAS 1992; Dayhoff et al., 1978, at 250 accepted point mutations.
_BLOSUM62 = """
 4
-1 5
-2 0 6
-2 -2 1 6
 0 -3 -3 -3 9
-1 1 0 0 -3 5
-1 0 0 2 -4 2 5
 0 -2 0 -1 -3 -2 -2 6
-2 0 1 -1 -3 0 0 -2 8
-1 -3 -3 -3 -1 -3 -3 -4 -3 4
-1 -2 -3 -4 -1 -2 -3 -4 -3 2 4
-1 2 0 -1 -3 1 1 -2 -1 -3 -2 5
-1 -1 -2 -3 -1 0 -2 -3 -2 1 2 -1 5
-2 -3 -3 -3 -2 -3 -3 -3 -1 0 0 -3 0 6
-1 -2 -2 -1 -3 -1 -1 -2 -2 -3 -3 -1 -2 -4 7
 1 -1 1 0 -1 0 0 0 -1 -2 -2 0 -1 -2 -1 4
 0 -1 0 -1 -1 -1 -1 -2 -2 -1 -1 -1 -1 -2 -1 1 5
-3 -3 -4 -4 -2 -2 -3 -2 -2 -3 -2 -3 -1 1 -4 -3 -2 11
-2 -2 -2 -3 -2 -1 -2 -3 2 -1 -1 -2 -1 3 -3 -2 -2 2 7
 0 -3 -3 -3 -1 -2 -2 -3 -3 3 1 -2 1 -1 -2 -2 0 -3 -1 4
"""
_UNITS = {"blosum62": 2, "pam250": 10 / np.log2(10)}  # scores of a factor of 2 in the odds
_PAM250 = """
 2
-2 6
 0 0 2
 0 -1 2 4
-2 -4 -4 -5 12
 0 1 1 2 -5 4
 0 -1 1 3 -5 2 4
 1 -3 0 1 -3 -1 0 5
-1 2 2 1 -3 3 1 -2 6
-1 -2 -2 -2 -2 -2 -2 -3 -2 5
-2 -3 -3 -4 -6 -2 -3 -4 -2 2 6
-1 3 1 0 -5 1 0 -2 0 -2 -3 5
-1 0 -2 -3 -5 -1 -2 -3 -2 2 4 0 6
-3 -4 -3 -6 -4 -5 -5 -5 -2 1 2 -5 0 9
 1 0 0 -1 -3 0 -1 0 0 -2 -3 -1 -2 -5 6
 1 0 1 0 0 -1 0 1 -1 -1 -3 0 -2 -3 1 2
 1 -1 0 0 -2 -1 0 0 -1 0 -2 0 -1 -3 0 1 3
-6 2 -4 -7 -8 -5 -7 -7 -3 -5 -2 -3 -4 0 -6 -2 -5 17
-3 -4 -2 -4 0 -4 -4 -5 0 -1 -1 -4 -2 7 -5 -3 -3 0 10
 0 -2 -2 -2 -2 -2 -2 -1 -2 4 2 -2 2 -1 -1 -1 0 -6 -2 4
"""


def detected(sequences: Sequence[Any]) -> str:
    """Return the alphabet of sequences: ``"dna"``, ``"rna"``, ``"protein"`` or ``"any"``.

    Nine in ten letters are A, C, G and T (or U), or else amino acids, of which at least 15 occur;
    nine in ten of these are capitals, unlike those of words. The others are other codes of the
    alphabet. Where all of A, C, G and T, or 15 amino acids, make up 99 in 100 letters, one that is
    no code does not change the alphabet: it is a mistake, and refused when it is encoded.
    """
    counts: dict[Any, int] = {}
    for sequence in sequences:
        for token in sequence:
            counts[token] = counts.get(token, 0) + 1
    if not counts or not all(isinstance(token, str) and len(token) == 1 for token in counts):
        return "any"
    folded: dict[str, int] = {}
    for token, count in counts.items():
        folded[token.upper()] = folded.get(token.upper(), 0) + count
    total = sum(folded.values())
    capitals = sum(count for token, count in counts.items() if token == token.upper())
    for name, letters in ALPHABETS.items():
        plain = sum(folded.get(letter, 0) for letter in letters)
        has_codes_only = folded.keys() <= codes_of(name).keys()
        needed = 15 if name == "protein" else len(letters)
        typical = len(folded.keys() & {*letters}) >= needed
        if plain < (0.9 if has_codes_only else 0.99) * total or not (has_codes_only or typical):
            continue
        if name != "protein":
            return "rna" if folded.get("U", 0) > folded.get("T", 0) else "dna"
        if typical and capitals >= 0.9 * total:
            return name
    return "any"


@cache
def codes_of(alphabet: str) -> Mapping[str, tuple[int, ...]]:
    """Return what each letter stands for, as positions in an alphabet; none of a gap ``-``.

    T and U are the same letter of DNA and RNA.
    """
    letters = ALPHABETS[alphabet]
    ambiguous = _AMINO_ACIDS if alphabet == "protein" else _NUCLEOTIDES
    places_of: dict[str, tuple[int, ...]] = {letter: (k,) for k, letter in enumerate(letters)}
    for letter, options in ambiguous.items():
        if alphabet == "rna":
            options = options.replace("T", "U")
        places_of.setdefault(letter, tuple(map(letters.index, options)))
    if alphabet != "protein":
        places_of |= {"T": (3,), "U": (3,)}
    return MappingProxyType(places_of | dict.fromkeys("-.*", ()))


def unknown_letter(alphabet: str, sequence: Sequence[Any]) -> str:
    """Return the first token of a sequence that is no code of an alphabet; empty if all are."""
    if alphabet not in ALPHABETS:
        return ""
    codes, different = codes_of(alphabet), map(str, dict.fromkeys(sequence))
    return next((token for token in different if token.upper() not in codes), "")


@cache
def similarities(base: str, alphabet: str, size: int) -> NDArray[np.float64]:
    """Return the kernel of two letters ``(size, size)``, with the diagonal 1.

    Those of BLOSUM62 and PAM250 are the odds of a substitution, of which the published scores are
    logarithms, divided by the square roots of their diagonal. The scores themselves have negative
    eigenvalues; the odds have none, so that they are a kernel as they are.
    """
    if base == "one-hot":
        return np.eye(size)
    if base == "mismatch":
        return np.full((size, size), MISMATCH) + (1 - MISMATCH) * np.eye(size)
    if base not in BASES:
        raise ArgumentError("base", base, f"one of {', '.join(BASES)}")
    if alphabet != "protein":
        hint = "Pass alphabet='protein' if the sequences are proteins."
        raise ArgumentError("base", base, f"one-hot or mismatch for {alphabet}", hint=hint)
    odds = 2 ** (substitution_scores(base) / _UNITS[base])
    lengths = np.sqrt(np.diag(odds))
    return odds / np.outer(lengths, lengths)


def substitution_scores(name: str) -> NDArray[np.float64]:
    """Return BLOSUM62 or PAM250 ``(20, 20)``, in the order of `PROTEIN`."""
    rows = {"blosum62": _BLOSUM62, "pam250": _PAM250}[name].split("\n")[1:-1]
    lower = np.zeros((len(PROTEIN), len(PROTEIN)))
    for k, row in enumerate(rows):
        lower[k, : k + 1] = [float(value) for value in row.split()]
    return lower + np.tril(lower, -1).T


def letter_vectors(base: str, alphabet: str, size: int) -> NDArray[np.float64]:
    """Return a vector for each letter ``(size, d)``, whose inner products are `similarities`."""
    matrix = similarities(base, alphabet, size)
    if base == "one-hot":
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    is_kept = values > values[-1] * 1e-12
    return vectors[:, is_kept] * np.sqrt(values[is_kept])
