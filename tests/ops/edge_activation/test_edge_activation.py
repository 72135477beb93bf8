"""edge_activation beyond the generated tests: inputs at and far from centers, blocks, errors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from looped import looped
from representer.functional import GREENS
from representer.ops import OPS, edge_activation
from representer.ops.edge_activation import reference

from ..cases import compare

OP = OPS["edge_activation"]
BACKENDS = [b.name for b in OP.backends.values() if not b.missing]
EACH = pytest.mark.parametrize("backend", BACKENDS)
PIECEWISE = [green for green in GREENS if green != "gaussian"]


places = st.integers(-3, 3).map(float)  # so that many coincide


@EACH
@pytest.mark.parametrize("green", GREENS)
def test_a_sum_over_no_inputs_is_0_whatever_the_memory_held(backend, green):
    a, c, chi = (torch.empty(size) for size in ((64, 0), (0, 5), (0, 70, 5)))
    results = reference.Results(torch.full((64, 70), torch.nan))
    y = OP.backends[backend].forward(reference.Operands(a, c, chi, green, 1.0), results)
    assert torch.equal(getattr(y, "output", y), torch.zeros(64, 70))


@EACH
@pytest.mark.parametrize("green", PIECEWISE)
@given(
    st.lists(places, min_size=1, max_size=9),
    st.lists(places, min_size=1, max_size=12),
    st.integers(0, 99),
)
@settings(deadline=None, max_examples=20)
def test_inputs_at_centers_and_coinciding_centers_match_the_definition(
    backend, green, centers, inputs, seed
):
    chi = torch.randn(1, 3, len(centers), generator=torch.Generator().manual_seed(seed)).double()
    c, a = torch.tensor([centers]).double(), torch.tensor(inputs)[:, None].double()
    compare(OP, (a, c, chi), green, backend)


@EACH
@looped("green", GREENS)
@looped("case", ["far", "close", "blocks", "ties", "equal"])
def test_extreme_places_match_the_definition(backend, green, case):
    """Far from all centers; many within a millionth; more rows and outputs than a block; ties."""
    draw = torch.Generator().manual_seed(1)
    c, a = torch.randn(3, 41, generator=draw).double(), torch.randn(40, 3, generator=draw).double()
    outputs = 5
    if case == "far":
        a = a * torch.tensor([1e4, -50.0, 70.0])
    elif case == "close":
        c = torch.cat((torch.linspace(0, 1e-6, 40), torch.tensor([5.0]))).double().repeat(3, 1)
        a = torch.linspace(-1e-6, 2e-6, 120).double().reshape(40, 3)
    elif case == "blocks":
        c, a = c[:1].repeat(70, 1), torch.randn(150, 70, generator=draw).double()
        outputs = 131
    elif case == "ties":
        c, a = c[:, :9].round(), torch.randn(150, 3, generator=draw).double().round()
        outputs = 67
    else:
        c, a = c[:, :1].repeat(1, 4), c[:, :1].T.repeat(6, 1)
    chi = torch.randn(len(c), outputs, c.shape[1], generator=draw).double()
    compare(OP, (a, c, chi), green, backend, tolerance=1e-9)


@EACH
def test_values_that_are_not_finite_reach_all_outputs(backend):
    a = torch.zeros(5, 2)
    a[1, 0], a[2, 1] = torch.nan, torch.inf
    y = edge_activation(a, torch.tensor([[-1.0, 1.0]] * 2), torch.ones(2, 3, 2), backend=backend)
    assert y[1].isnan().all()
    assert y[2].isinf().all()
    assert y[[0, 3, 4]].isfinite().all()


def test_leading_dimensions_stay():
    x = torch.randn(2, 3, 4)
    y = edge_activation(x, torch.zeros(4, 1), torch.ones(4, 5, 1))
    torch.testing.assert_close(y, x.abs().sum(-1, keepdim=True).expand(2, 3, 5))
    assert edge_activation(x[0, 0], torch.zeros(4, 1), torch.ones(4, 5, 1)).shape == (5,)
