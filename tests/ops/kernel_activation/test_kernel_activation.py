"""kernel_activation beyond the generated tests: inputs at and far from centers, errors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from representer import functional
from representer.errors import ArgumentError, ShapeError
from representer.functional import GREENS
from representer.ops import OPS, kernel_activation

from ..cases import compare

OP = OPS["kernel_activation"]
BACKENDS = [b.name for b in OP.backends.values() if not b.missing]
EACH = pytest.mark.parametrize("backend", BACKENDS)
PIECEWISE = [green for green in GREENS if green != "gaussian"]


places = st.integers(-3, 3).map(float)  # so that many coincide


@EACH
@pytest.mark.parametrize("green", PIECEWISE)
@given(
    st.lists(places, min_size=1, max_size=9),
    st.lists(places, min_size=1, max_size=12),
    st.integers(0, 99),
)
@settings(deadline=None, max_examples=30)
def test_inputs_at_centers_and_coinciding_centers_match_the_definition(
    backend, green, centers, inputs, seed
):
    chi = torch.randn(1, len(centers), generator=torch.Generator().manual_seed(seed)).double()
    c, a = torch.tensor([centers]).double(), torch.tensor(inputs)[:, None].double()
    compare(OP, (a, c, chi), green, backend)


@EACH
@pytest.mark.parametrize("green", GREENS)
def test_many_centers_in_one_interval_of_the_search_match_the_definition(backend, green):
    """All but one center within a millionth, so that the evenly spaced cells do not part them."""
    c = torch.cat((torch.linspace(0, 1e-6, 40), torch.tensor([5.0])))[None].double()
    a = torch.cat((torch.linspace(-1e-6, 2e-6, 77), torch.tensor([3.0, 6.0])))[:, None].double()
    chi = torch.randn(1, 41, generator=torch.Generator().manual_seed(1)).double()
    # the slopes of a thousand crossings cancel in the moments of so narrow a place
    compare(OP, (a, c, chi), green, backend, tolerance=1e-9)


@EACH
@pytest.mark.parametrize("green", GREENS)
def test_nan_is_propagated(backend, green):
    nan = float("nan")
    ones = torch.ones(1, 3)
    found = kernel_activation(
        torch.tensor([[nan], [1.0]]), ones, ones, green=green, backend=backend
    )
    assert found.isnan().tolist() == [[True], [False]]
    broken = torch.tensor([[0.0, nan, 1.0]])
    found = kernel_activation(torch.zeros(2, 1), broken, ones, green=green, backend=backend)
    assert found.isnan().all()


@EACH
@pytest.mark.parametrize("shape", [(4,), (2, 3, 4), (0, 4), (2, 0, 4)])
def test_any_number_of_leading_axes_is_accepted(backend, shape):
    c = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)).double()
    a = torch.linspace(-2, 2, max(1, torch.Size(shape).numel())).double()
    a = a[: torch.Size(shape).numel()].reshape(shape).requires_grad_()
    found = kernel_activation(a, c, c, backend=backend)
    torch.testing.assert_close(found, functional.kernel_activation(a, c, c))
    assert torch.autograd.grad(found.sum(), a)[0].shape == shape


@pytest.mark.parametrize(("changes", "error", "message"), [
    ({"centers": torch.zeros(2, 0)}, ShapeError, r"expected \(2, centers\) with at least one"),
    ({"input": torch.zeros(5, 3)}, ShapeError, r"input has shape \(5, 3\); expected \(..., 2\)"),
    ({"green": "spline"}, ArgumentError, "green is 'spline'"),
    ({"bandwidth": -1.0}, ArgumentError, "bandwidth is -1.0"),
])  # fmt: skip
def test_invalid_operands_are_rejected(changes, error, message):
    fitting = {
        "input": torch.zeros(5, 2),
        **dict.fromkeys(("centers", "coefficients"), torch.zeros(2, 3)),
    }
    with pytest.raises(error, match=message):
        kernel_activation(**{**fitting, **changes})
