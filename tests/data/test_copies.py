"""Digests of equal objects are equal, and those of others differ."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from representer.data import copies
from representer.data.copies import digest_of, digest_of_graph


@pytest.mark.parametrize(
    ("one", "other", "are_equal"),
    [
        ("Free entry  now\n", "free ENTRY now", True),
        ("free entry now", "free entry now!", False),
        ("", "  ", True),
        (np.zeros((2, 3)), np.zeros((3, 2)), False),
        (np.zeros(6, np.float32), np.zeros(3, np.float64), False),
        (
            np.arange(6.0).reshape(2, 3).T,
            np.ascontiguousarray(np.arange(6.0).reshape(2, 3).T),
            True,
        ),
        (torch.arange(3.0), np.arange(3, dtype=np.float32), True),
        ("\ud83d", "\ud83e", False),
    ],
)
def test_texts_are_equal_but_for_case_and_spaces_and_arrays_by_shape_and_values(
    one, other, are_equal
):
    assert (digest_of(one) == digest_of(other)) == are_equal


def edges(*pairs: tuple[int, int]) -> np.ndarray:
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return np.concatenate([ends, ends[::-1]], axis=1)


RING, PATH = edges(*((v, (v + 1) % 9) for v in range(9))), edges(*((v, v + 1) for v in range(8)))


def test_a_graph_has_the_same_digest_in_every_order_of_nodes_and_edges():
    rng = np.random.default_rng(0)
    for _ in range(20):
        count, ends = 9, edges(*{(v, int(rng.integers(v))) for v in range(1, 9)})
        nodes = rng.integers(3, size=count)
        weights = rng.normal(size=(ends.shape[1], 2))
        place, order = rng.permutation(count), rng.permutation(ends.shape[1])
        moved = np.empty_like(nodes)
        moved[place] = nodes
        first = digest_of_graph(count, ends, tuple(nodes.tolist()), weights)
        again = place[ends[:, order]], tuple(moved.tolist()), weights[order]
        assert digest_of_graph(count, *again) == first
        changed = weights[order].copy()
        changed[0] += 1e-9
        assert digest_of_graph(count, again[0], again[1], changed) != first


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((9, RING, None, None), (9, PATH, None, None)),
        ((9, RING, None, None), (10, RING, None, None)),
        ((9, PATH, None, None), (9, PATH[:, :8], None, None)),  # its directed edges alone
        ((9, PATH, tuple("aaaaabaaa"), None), (9, PATH, tuple("aaaaaabaa"), None)),
        ((9, PATH, (1,) * 9, None), (9, PATH, ("1",) * 9, None)),
        ((9, PATH, None, (1,) * 16), (9, PATH, None, (1,) * 15 + (2,))),
        ((2, edges(), None, None), (3, edges(), None, None)),
    ],
)  # fmt: skip
def test_different_graphs_have_different_digests(one, other):
    assert digest_of_graph(*one) != digest_of_graph(*other)


def test_of_very_many_digests_the_smallest_are_listed(monkeypatch):
    monkeypatch.setattr(copies, "MOST", 3)
    listed = copies.as_hex(np.array([5, 1, 5, -7, 9]))
    assert np.frombuffer(bytes.fromhex(listed), np.int64).tolist() == [-7, 1, 5]
