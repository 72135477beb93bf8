"""kernel_activation and edge_activation beyond the generated tests, in one table."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from looped import looped
from representer import functional
from representer.errors import ArgumentError, ShapeError
from representer.functional import GREENS
from representer.ops import OPS, edge_activation, kernel_activation
from representer.ops.edge_activation import Operands, Results

from .cases import compare, each_backend

OUTPUTS = {"kernel_activation": (), "edge_activation": (3,)}  # axes of the coefficients
PIECEWISE = [green for green in GREENS if green != "gaussian"]
places = st.integers(-3, 3).map(float)  # so that many coincide


KERNEL, EDGE = each_backend("kernel_activation"), each_backend("edge_activation")
BOTH = each_backend(*OUTPUTS)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


@BOTH
@pytest.mark.parametrize("green", PIECEWISE)
@given(
    st.lists(places, min_size=1, max_size=9),
    st.lists(places, min_size=1, max_size=12),
    st.integers(0, 99),
)
@settings(deadline=None, max_examples=30)
def test_inputs_at_centers_and_coinciding_centers_match_the_definition(
    name, backend, green, centers, inputs, seed
):
    chi = drawn(seed, 1, *OUTPUTS[name], len(centers))
    c, a = torch.tensor([centers]).double(), torch.tensor(inputs)[:, None].double()
    compare(OPS[name], (a, c, chi), green, backend)


@KERNEL
@pytest.mark.parametrize("green", GREENS)
def test_many_centers_in_one_interval_of_the_search_match_the_definition(name, backend, green):
    """All but one center within a millionth, so that the evenly spaced cells do not part them."""
    c = torch.cat((torch.linspace(0, 1e-6, 40), torch.tensor([5.0])))[None].double()
    a = torch.cat((torch.linspace(-1e-6, 2e-6, 77), torch.tensor([3.0, 6.0])))[:, None].double()
    # the slopes of a thousand crossings cancel in the moments of so narrow a place
    compare(OPS[name], (a, c, drawn(1, 1, 41)), green, backend, tolerance=1e-9)


@EDGE
@looped("green", GREENS)
@looped("case", ["far", "close", "blocks", "ties", "equal"])
def test_extreme_places_match_the_definition(name, backend, green, case):
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
    compare(OPS[name], (a, c, chi), green, backend, tolerance=1e-9)


@EDGE
@pytest.mark.parametrize("green", GREENS)
def test_a_sum_over_no_inputs_is_0_whatever_the_memory_held(name, backend, green):
    a, c, chi = (torch.empty(size) for size in ((64, 0), (0, 5), (0, 70, 5)))
    results = Results(torch.full((64, 70), torch.nan))
    y = OPS[name].backends[backend].forward(Operands(a, c, chi, green, 1.0), results)
    assert torch.equal(getattr(y, "output", y), torch.zeros(64, 70))


@KERNEL
@pytest.mark.parametrize("green", GREENS)
def test_nan_is_propagated(name, backend, green):
    nan, ones, how = float("nan"), torch.ones(1, 3), {"green": green, "backend": backend}
    found = kernel_activation(torch.tensor([[nan], [1.0]]), ones, ones, **how)
    assert found.isnan().tolist() == [[True], [False]]
    broken = torch.tensor([[0.0, nan, 1.0]])
    assert kernel_activation(torch.zeros(2, 1), broken, ones, **how).isnan().all()


@EDGE
def test_values_that_are_not_finite_reach_all_outputs(name, backend):
    a = torch.zeros(5, 2)
    a[1, 0], a[2, 1] = torch.nan, torch.inf
    y = edge_activation(a, torch.tensor([[-1.0, 1.0]] * 2), torch.ones(2, 3, 2), backend=backend)
    assert y[1].isnan().all()
    assert y[2].isinf().all()
    assert y[[0, 3, 4]].isfinite().all()


@KERNEL
@pytest.mark.parametrize("shape", [(4,), (2, 3, 4), (0, 4), (2, 0, 4)])
def test_any_number_of_leading_axes_is_accepted(name, backend, shape):
    c, count = drawn(0, 4, 5), torch.Size(shape).numel()
    a = torch.linspace(-2, 2, max(1, count)).double()[:count].reshape(shape).requires_grad_()
    found = kernel_activation(a, c, c, backend=backend)
    torch.testing.assert_close(found, functional.kernel_activation(a, c, c))
    assert torch.autograd.grad(found.sum(), a)[0].shape == shape


def test_leading_dimensions_stay():
    x = torch.randn(2, 3, 4)
    y = edge_activation(x, torch.zeros(4, 1), torch.ones(4, 5, 1))
    torch.testing.assert_close(y, x.abs().sum(-1, keepdim=True).expand(2, 3, 5))
    assert edge_activation(x[0, 0], torch.zeros(4, 1), torch.ones(4, 5, 1)).shape == (5,)


@pytest.mark.parametrize(("changes", "error", "message"), [
    ({"centers": torch.zeros(2, 0)}, ShapeError, r"expected \(2, centers\) with at least one"),
    ({"input": torch.zeros(5, 3)}, ShapeError, r"input has shape \(5, 3\); expected \(..., 2\)"),
    ({"green": "spline"}, ArgumentError, "green is 'spline'"),
    ({"bandwidth": -1.0}, ArgumentError, "bandwidth is -1.0"),
])  # fmt: skip
def test_invalid_operands_are_rejected(changes, error, message):
    fitting = {"input": torch.zeros(5, 2)}
    fitting |= dict.fromkeys(("centers", "coefficients"), torch.zeros(2, 3))
    with pytest.raises(error, match=message):
        kernel_activation(**{**fitting, **changes})
