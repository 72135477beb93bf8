"""The kernel of k-mers with gaps: its definition, its parts, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from representer.errors import ArgumentError, DataError
from representer.kernels import KmerKernel
from representer.kernels.alphabets import (
    PROTEIN,
    codes_of,
    detected,
    letter_vectors,
    similarities,
    substitution_scores,
)

SMALL: dict[str, Any] = {"orders": (2,), "span": 4, "num_patterns": 3, "alphabet": "dna"}
READS = ["ACGTTGA", "ttgacNgt", "GRACGT", "A", "", "CCGTAACG"]


def definition(kernel: KmerKernel, X: list[str]) -> np.ndarray:
    """Return the kernel by its sums over all pairs of k-mers."""
    kernel.fit(X)
    vectors, letters = kernel.letters_.vectors(kernel.base), kernel.letters_
    strands = [[own] for own in letters.encode(X)]
    if kernel.strands == "both":
        strands = [[own, letters.complements()[own][::-1]] for (own,) in strands]

    def offset(i: int, j: int) -> float:
        if kernel.position is None:
            return 1.0
        knots = np.arange(20)
        of_i, of_j = (np.maximum(0, 1 - abs(at / kernel.position - knots)) for at in (i, j))
        return float(of_i @ of_j)

    def pair(x: int, y: int, order: int) -> float:
        return sum(
            offset(i, j) * np.prod([vectors[s[i + p]] @ vectors[r[j + p]] for p in own.places])
            for own in kernel.patterns_ if len(own.places) == order
            for s in strands[x] for r in strands[y]
            for i in range(len(s) - own.span + 1) for j in range(len(r) - own.span + 1)
        )  # fmt: skip

    gram = np.zeros((len(X), len(X)))
    for order in kernel.orders:
        own = np.array([[pair(x, y, order) for y in range(len(X))] for x in range(len(X))])
        norms = np.sqrt(np.outer(np.diag(own), np.diag(own)))
        gram += np.divide(own, norms, out=np.zeros_like(own), where=norms > 0) / len(kernel.orders)
    return gram


OPTIONS = [
    {}, {"strands": "both"}, {"position": 3.0}, {"base": "mismatch"}, {"orders": (1, 3)},
    {"base": "mismatch", "strands": "both"}, {"span": 2},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
def test_it_is_its_definition(options):
    kernel = KmerKernel(**SMALL | options)
    np.testing.assert_allclose(kernel(READS), definition(kernel, READS), atol=1e-12)
    np.testing.assert_allclose(kernel.diag(READS), np.diag(kernel(READS)), atol=1e-12)
    np.testing.assert_allclose(kernel(READS[:2], READS), kernel(READS)[:2], atol=1e-12)


@pytest.mark.parametrize("options", [*OPTIONS, {"pooling": "max"}])
def test_its_occurrences_sum_to_linear_functions_of_its_features(options):
    kernel = KmerKernel(**SMALL | options)
    features = kernel.fit_transform(READS)
    features = features if isinstance(features, np.ndarray) else features.toarray()
    coefficients = np.random.default_rng(0).normal(size=kernel.width)
    for one, row in zip(READS, features, strict=True):
        found = kernel.occurrences(one, coefficients)
        assert sum(own.value for own in found) == pytest.approx(row @ coefficients, abs=1e-12)
        assert all(0 <= at < len(one) for own in found for at in own.where)


def test_an_occurrence_has_the_letters_at_its_positions():
    kernel = KmerKernel(**SMALL | {"strands": "both"}).fit(READS)
    for own in kernel.occurrences("ACGTTGA", np.ones(kernel.width)):
        name, _, strand = own.name.partition(", ")
        letters = ["ACGTTGA"[at] for at in own.where]
        if strand:
            letters = ["TGCA"["ACGT".index(one)] for one in reversed(letters)]
        assert "".join(letters) == name.replace("-", "")


def test_the_maximum_counts_a_kmer_once():
    kernel = KmerKernel((2,), 2, 1, "dna", pooling="max")
    features = kernel.fit_transform(["ACACACAC", "AC"]).toarray()
    assert np.count_nonzero(features[0]) == 2  # AC and CA
    np.testing.assert_allclose(features[0][features[0] > 0], 2**-0.5)


def test_both_strands_give_a_sequence_and_its_complement_the_same_features():
    kernel = KmerKernel(**SMALL | {"strands": "both"})
    gram = kernel(["ACGGTR", "YACCGT"])
    np.testing.assert_allclose(gram, 1, atol=1e-12)


def test_strands_are_chosen_by_left_out_errors():
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice([*"ACGT"], 30)) for _ in range(120)]
    y = np.array([[row % 2] for row in range(120)], float)
    planted = [x[:10] + "GATTACA" + x[17:] if row % 2 else x for row, x in enumerate(X)]
    turned = [
        x[:10] + ("TGTAATC" if row % 4 == 1 else "GATTACA") + x[17:] if row % 2 else x
        for row, x in enumerate(X)
    ]
    kernel = KmerKernel((4,), 5, 3, strands="auto")
    assert kernel.fit(turned, y).strands_ == "both"
    as_one = [x[:10] + ("GATTACA" if row % 2 else "TGTAATC") + x[17:] for row, x in enumerate(X)]
    assert kernel.fit(as_one, y).strands_ == "one"
    assert kernel.fit(planted).strands_ == "one"  # without targets


@pytest.mark.parametrize("options", [{}, {"base": "mismatch"}, {"strands": "both"}])
def test_features_do_not_depend_on_how_many_sequences_are_in_memory(monkeypatch, options):
    whole, blocks = (KmerKernel(**SMALL | options) for _ in range(2))
    expected = whole.fit_transform(READS)
    monkeypatch.setattr("representer.kernels.kmer_kernel._BLOCK", 6)
    features = blocks.fit_transform(READS)
    np.testing.assert_array_equal(whole.codes_, blocks.codes_)
    assert abs(features - expected).max() < 1e-14
    assert abs(blocks.transform(READS) - expected).max() < 1e-14
    assert blocks.transform([]).shape == (0, whole.width)


def test_tokens_of_any_kind_are_letters_and_unknown_ones_match_nothing():
    kernel = KmerKernel((1, 2), 3, 2, "any").fit([["home", "cart", "buy"], ["home", 3]])
    assert kernel.transform([["else", "other"]]).nnz == 0
    (first, *_) = kernel.occurrences(["home", "else", "buy"], np.ones(kernel.width))
    assert first.name == "home"
    assert "home - buy" in {
        own.name for own in kernel.occurrences(["home", "cart", "buy"], np.ones(kernel.width))
    }


def test_a_kmer_that_stands_for_too_many_counts_nothing():
    kernel = KmerKernel((6,), 6, 1, "dna").fit(["ACGTAC"])
    assert kernel.transform(["NNNNNN"]).nnz == 0
    assert kernel.transform(["ACGTNN"]).nnz == 1


def test_what_is_learned_is_restored():
    for options in ({}, {"base": "mismatch"}):
        kernel = KmerKernel(**SMALL | options).fit(READS)
        again = KmerKernel(**SMALL | options).restore(*kernel.fitted())
        left, right = (own.transform(READS) for own in (kernel, again))
        assert abs(left - right).max() == 0
        tokens, arrays = kernel.fitted()
        with pytest.raises(ValueError, match="damaged"):
            again.restore(tokens, arrays | {"ends": arrays["ends"][:-1]})


@pytest.mark.parametrize(("options", "message"), [
    ({"orders": ()}, "orders"), ({"orders": (0,)}, "orders"), ({"span": 0}, "span"),
    ({"alphabet": "greek"}, "alphabet"), ({"strands": "two"}, "strands"),
    ({"pooling": "mean"}, "pooling"), ({"position": -1.0}, "position"), ({"base": "pam"}, "base"),
    ({"base": "mismatch", "pooling": "max"}, "base"),
])  # fmt: skip
def test_wrong_arguments_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        KmerKernel(**options)


def test_arguments_that_do_not_fit_the_sequences_are_refused():
    with pytest.raises(ArgumentError, match="no complement"):
        KmerKernel(strands="both", alphabet="protein").fit(["MKV"])
    with pytest.raises(ArgumentError, match="up to 3 for 20 letters"):
        KmerKernel((4,), base="blosum62", alphabet="protein").fit(["MKVW"])
    with pytest.raises(DataError, match=r"X\[1\] has 'E' at position 2"):
        KmerKernel(alphabet="dna").fit(["ACGT", "ACE"])


# Alphabets of biological sequences, and kernels of two letters.


@pytest.mark.parametrize(("name", "sequences"), [
    ("dna", ["ACGTN", "acgtacgtac"]), ("dna", ["ACGA"]), ("rna", ["acguacguUR"]),
    ("dna", ["ACGT" * 99, codes_of("dna")]),
    ("protein", [PROTEIN, "MKVX"]),
    ("any", ["abcd", "hello"]), ("any", [PROTEIN.lower()]), ("any", [["AC", "GT"]]),
    ("any", [[1, 2]]), ("any", [""]), ("any", ["NNNNNA"]),
    ("protein", [PROTEIN * 9, "mkvx*"]), ("any", [PROTEIN, PROTEIN.lower()]),
    ("dna", ["ACGT" * 30, "AC?"]), ("rna", ["acgu" * 30, "e"]), ("protein", [PROTEIN * 9, "MK?"]),
    ("any", ["ACGT", "AC?"]), ("any", ["ACG" * 90, "E"]), ("any", ["A" * 999, "C?"]),
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


@pytest.mark.parametrize("base", ["one-hot", "blosum62"])
def test_a_logo_has_the_coefficients_of_kmers_with_one_letter_replaced(base):
    kind = "protein" if base != "one-hot" else "dna"
    reads = ["ARNDAR", "NDCQEG"] if base != "one-hot" else ["ACGTTGA", "TTGACAGT"]
    kernel = KmerKernel((2,), 4, 3, kind, base).fit(reads)
    coefficients = np.random.default_rng(0).normal(size=kernel.width)
    logos = kernel.logos(coefficients, 2)
    assert [logo.value for logo in logos] == sorted((logo.value for logo in logos), reverse=True)
    size, tokens = len(kernel.letters_.tokens), [*kernel.letters_.tokens]
    names = {pattern.named("ab"): k for k, pattern in enumerate(kernel.patterns_)}
    for logo in logos:
        shape = logo.name.translate({ord(letter): "a" for letter in tokens})
        k = names[shape[:-1] + "b"]
        for place, column in enumerate(logo.columns):
            assert (not column) == (logo.name[place] == "-")
            for letter, height in column.items():
                changed = logo.name[:place] + letter + logo.name[place + 1 :]
                first, last = (tokens.index(changed[end]) for end in (0, -1))
                code = np.array([first * size + last])
                assert height == pytest.approx(kernel._of_codes(k, code, coefficients)[0])
