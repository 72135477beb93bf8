"""Sums over chains of states, and their sections."""

from __future__ import annotations

import pytest
import torch

from drawn_trees import F64, T, tree
from representer.errors import ArgumentError, KindError, ShapeError
from representer.estimators.kernel_halves import sections
from representer.explain import top_walks, walk_readout
from representer.explain.walks import chain_terms
from representer.functional.walks import tree_chains
from representer.kernels import Gaussian, InversePolynomial, StringKernel
from representer.nn import DeepGraphKernelNN, TreeKernelNN

# The chains of a tree sum to the outputs of its network.


OPTIONS = [
    {"decay": decay, "order": order, "ordered": ordered}
    for decay in (0.5, "learned", "gated", "state")
    for order, ordered in ((1, False), (3, True))
]
every_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


def made(options) -> TreeKernelNN:
    torch.manual_seed(2)
    net = TreeKernelNN(3, 4, **options, activation="tanh", dtype=F64)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return net


@every_option
def test_the_terms_of_all_chains_sum_to_the_output_before_the_activation(options):
    net, G = made(options), tree(3, 9, roots=2)
    chains, values = chain_terms(net, G)
    torch.testing.assert_close(values.sum(0).tanh(), net(G.x, G.edge_index)[0])
    assert sorted(chains) == sorted(tree_chains(G.edge_index, 9, net.order))
    weights = torch.randn(4, dtype=F64)
    found = walk_readout(net, G, weights)
    assert sum(c.contribution for c in found) == pytest.approx(float(values.sum(0) @ weights))
    sizes = [abs(c.contribution) for c in found]
    assert sizes == sorted(sizes, reverse=True)


@every_option
def test_the_largest_chains_are_those_of_all_chains(options):
    net, G = made(options), tree(4, 12)
    chains, values = chain_terms(net, G)
    of_unit = sorted(zip(values[:, 2].tolist(), chains, strict=True), key=lambda t: -abs(t[0]))
    found = top_walks(net, G, 2, 5)
    assert [c.positions for c in found] == [chain for _, chain in of_unit[:5]]
    assert [c.contribution for c in found] == pytest.approx([value for value, _ in of_unit[:5]])
    assert len(top_walks(net, G, 2, 10**6)) == len(chains)


def test_a_tree_smaller_than_a_chain_has_no_terms():
    net = TreeKernelNN(2, 3, 4, 0.5, dtype=F64)
    assert top_walks(net, T, 0, 5) == []
    assert walk_readout(net, T, torch.ones(3, dtype=F64)) == []


def test_wrong_arguments_are_refused():
    net = TreeKernelNN(2, 3, dtype=F64)
    with pytest.raises(ArgumentError, match="unit is 3"):
        top_walks(net, T, 3, 1)
    with pytest.raises(ArgumentError, match="k is 0"):
        top_walks(net, T, 0, 0)
    with pytest.raises(ShapeError, match="weights"):
        walk_readout(net, T, torch.ones(2, dtype=F64))
    with pytest.raises(KindError, match="or TreeKernelNN"):
        top_walks(DeepGraphKernelNN(2, 3), T, 0, 1)


# Functions of a kernel's space as exact sums over their parts and tokens.


GENERATOR = torch.Generator().manual_seed(3)
X = torch.randn(6, 3, generator=GENERATOR, dtype=torch.float64)
REFERENCES = [torch.randn(n, 3, generator=GENERATOR, dtype=torch.float64) for n in (4, 5, 3)]
C = torch.tensor([1.5, -2.0, 0.5], dtype=torch.float64)
ONE, TWO = StringKernel(1, 0.9), StringKernel(2, 0.5, trailing=False)
DIVIDED = [
    ONE, TWO, ONE + TWO, 3.0 * (ONE + 0.5 * TWO), (ONE + TWO.cosine()).cosine(), ONE * TWO,
    TWO**2, StringKernel(2, 0.5, combine="add"), StringKernel(3, 0.5, normalized="exact"),
]  # fmt: skip
WHOLE = [
    StringKernel(2, 0.5, base=Gaussian()),
    TWO.cosine().activated(InversePolynomial()),
    ONE * StringKernel(2, base=Gaussian()),
]


@pytest.mark.parametrize("kernel", [*DIVIDED, *WHOLE], ids=repr)
def test_the_parts_sum_to_the_function(kernel):
    found = sections(kernel, X, REFERENCES, C)
    assert sum(one.value for one in found) == pytest.approx(
        float(kernel([X], REFERENCES)[0] @ C), rel=1e-12
    )


@pytest.mark.parametrize("kernel", DIVIDED, ids=repr)
def test_the_tokens_of_a_part_sum_to_it(kernel):
    for one in sections(kernel, X, REFERENCES, C):
        assert one.by_token is not None
        assert float(one.by_token.sum()) == pytest.approx(one.value, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kernel", WHOLE, ids=repr)
def test_of_other_kernels_only_the_whole_is_a_contribution(kernel):
    (found,) = sections(kernel, X, REFERENCES, C)
    assert found.by_token is None
