"""Alphabets of biological sequences, and kernels of two letters."""

from __future__ import annotations

import numpy as np
import pytest

from representer.errors import ArgumentError
from representer.kernels.alphabets import (
    PROTEIN,
    codes_of,
    detected,
    letter_vectors,
    similarities,
    substitution_scores,
)


@pytest.mark.parametrize(("name", "sequences"), [
    ("dna", ["ACGTN", "acgtacgtac"]), ("rna", ["acguacguUR"]), ("protein", [PROTEIN, "MKVX"]),
    ("any", ["abcd", "hello"]), ("any", [PROTEIN.lower()]), ("any", [["AC", "GT"]]),
    ("any", [[1, 2]]), ("any", [""]), ("any", ["NNNNNA"]),
])  # fmt: skip
def test_the_alphabet_is_detected(name, sequences):
    assert detected(sequences) == name


def test_the_matrices_have_their_published_entries():
    place = PROTEIN.index
    blosum, pam = substitution_scores("blosum62"), substitution_scores("pam250")
    for matrix, entries in ((blosum, {"WW": 11, "AR": -1, "FY": 3, "VC": -1, "DE": 2}),
                            (pam, {"WW": 17, "AR": -2, "FY": 7, "VC": -2, "DE": 3})):  # fmt: skip
        assert np.array_equal(matrix, matrix.T)
        for (a, b), value in entries.items():
            assert matrix[place(a), place(b)] == value
    assert blosum.sum() == -426  # of the files that Biopython has
    assert pam.sum() == -456


@pytest.mark.parametrize("base", ["one-hot", "mismatch", "blosum62", "pam250"])
def test_every_base_is_positive_semidefinite_and_its_vectors_have_its_products(base):
    kernel, vectors = similarities(base, "protein", 20), letter_vectors(base, "protein", 20)
    assert np.linalg.eigvalsh(kernel).min() > -1e-12
    np.testing.assert_allclose(np.diag(kernel), 1)
    np.testing.assert_allclose(vectors @ vectors.T, kernel, atol=1e-12)


def test_the_odds_are_positive_definite_where_the_scores_are_not():
    for base in ("blosum62", "pam250"):
        assert np.linalg.eigvalsh(substitution_scores(base))[0] < -0.1
        assert np.linalg.eigvalsh(similarities(base, "protein", 20))[0] > 1e-4
    kernel, place = similarities("blosum62", "protein", 20), PROTEIN.index
    assert kernel[place("D"), place("E")] == pytest.approx(2 ** (1 - (3 + 2.5) / 2))


def test_ambiguous_letters_stand_for_those_of_iupac():
    assert codes_of("dna")["R"] == (0, 2)
    assert codes_of("dna")["N"] == (0, 1, 2, 3)
    assert codes_of("rna")["Y"] == (1, 3)
    assert codes_of("dna")["U"] == codes_of("dna")["T"] == (3,)
    assert len(codes_of("protein")["X"]) == 20
    assert codes_of("dna")["-"] == ()


def test_matrices_of_amino_acids_are_refused_for_others():
    with pytest.raises(ArgumentError, match="one-hot or mismatch for dna"):
        similarities("blosum62", "dna", 4)
