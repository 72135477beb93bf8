"""Chains with held gates: two forms of their kernels, and padding."""

from __future__ import annotations

import pytest
import torch

from representer.ops import held as module
from representer.ops.held import HeldChain, before, chain_states

F64 = torch.float64


def held(combine: str, orders: tuple[int, ...], seed: int = 0) -> HeldChain:
    draw = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=draw, dtype=F64)

    chain = HeldChain.of(
        uniform(5, 3, 2) - 0.5, uniform(5, 3, 4), uniform(5, 3, 4), torch.tensor([5, 0, 3])
    )
    sizes = uniform(3, len(orders), 4), uniform(len(orders), 4)
    return chain._replace(read=sizes[0], share=sizes[1], orders=orders, combine=combine)  # type: ignore[arg-type]


@pytest.mark.parametrize("combine", ["multiply", "add", "add_exact"])
@pytest.mark.parametrize("orders", [(1,), (3,), (1, 2, 3)])
def test_the_features_and_all_pairs_of_steps_give_one_kernel(combine, orders):
    x, y = held(combine, orders), held(combine, orders, seed=1)
    by_features = torch.einsum("nhd,mhd->nm", x.maps(), y.maps())
    by_pairs = x.kernels(y)
    torch.testing.assert_close(by_pairs, by_features)
    assert x.maps().shape[2] == x.width
    assert by_features[0].any()
    assert not by_features[1].any()  # an empty sequence


@pytest.mark.parametrize(("order", "most"), [(1, 3), (3, 2)])  # all units at once from order 2 on
def test_as_many_sequences_are_compared_at_once_as_the_limit_allows(order, most, monkeypatch):
    monkeypatch.setattr(module, "ENTRIES", 200)  # 5 by 5 pairs of steps, of 4 units
    x, y, objects, compare = (
        held("multiply", (order,)),
        held("multiply", (order,)),
        [],
        module.HeldChain._with,
    )
    monkeypatch.setattr(
        module.HeldChain, "_with", lambda c, d: objects.append(d.objects) or compare(c, d)
    )
    x.kernels(y)
    assert max(objects) == most


def test_padding_changes_no_state():
    x = held("multiply", (2,))
    alone = x._replace(features=x.features[:3], decay=x.decay[:3], write=x.write[:3])
    short, whole = (c.of_units(slice(None), slice(2, 3)) for c in (alone, x))
    r = torch.randn(2, 4, 2, dtype=F64)
    torch.testing.assert_close(short.states(r), whole.states(r))
    torch.testing.assert_close(short.maps(), whole.maps())


def test_the_masses_are_the_states_of_products_that_are_1():
    decay, write = torch.rand(6, 1, 2, dtype=F64), torch.rand(6, 1, 2, dtype=F64)
    ones = torch.ones(6, 1, 3, 2, dtype=F64)
    states, masses = chain_states(ones, decay, write, "multiply", True)
    for c, m in zip(states, masses, strict=True):
        torch.testing.assert_close(c, m)
    assert torch.equal(before(ones)[0], torch.zeros(1, 3, 2, dtype=F64))
