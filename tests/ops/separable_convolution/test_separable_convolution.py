"""separable_convolution beyond the generated tests: sizes, threads, gradients, errors."""

from __future__ import annotations

import sys

import pytest
import torch

from looped import looped
from representer import functional
from representer.errors import ArgumentError, ShapeError
from representer.ops import OPS, separable_convolution

BACKENDS = [b.name for b in OPS["separable_convolution"].backends.values() if not b.missing]
EACH = pytest.mark.parametrize("backend", BACKENDS)


def _operands(samples=60, batch=2, channels=3, filters=5, n=7, rank=2):
    generator = torch.Generator().manual_seed(1)
    shapes = (samples, batch, channels), (rank, filters, channels), (rank, filters, n)
    return [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]


@EACH
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (3, 2), (2, 4)])
@pytest.mark.parametrize("rank", [1, 3])
def test_every_backend_matches_the_sum_as_printed(
    backend: str, stride: int, dilation: int, rank: int
):
    operands = _operands(rank=rank)
    options = {"stride": stride, "dilation": dilation}
    found = separable_convolution(*operands, **options, backend=backend)
    expected = functional.separable_convolution_definition(*operands, **options)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@EACH
@looped("filters", [3, 8, 11, 40])
@looped("samples", [7, 262, 263, 600])
def test_any_number_of_steps_and_filters_matches_the_definition(
    backend: str, filters: int, samples: int
):
    operands = [x.requires_grad_() for x in _operands(samples, 1, 2, filters)]
    found = separable_convolution(*operands, backend=backend)
    expected = functional.separable_convolution(*operands)
    weight = torch.randn_like(expected)
    pairs = zip(
        (found, *torch.autograd.grad(found, operands, weight)),
        (expected, *torch.autograd.grad(expected, operands, weight)),
        strict=True,
    )
    for ours, theirs in pairs:
        scale = max(1.0, theirs.abs().max().item())
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10 * scale)


@EACH
def test_the_gradient_of_the_input_is_computed_only_on_request(
    backend: str, monkeypatch: pytest.MonkeyPatch
):
    x, mix, taps = _operands()
    mix.requires_grad_()
    monkeypatch.setattr(
        sys.modules[separable_convolution.__module__], "conv1d_input", None
    )  # the expensive part
    separable_convolution(x, mix, taps, backend=backend).sum().backward()
    turned = (x.mT.contiguous().mT, mix.detach(), taps)  # the gradient's layout is not the input's
    arguments = (torch.ones(54, 2, 5, dtype=x.dtype), *turned, 1, 1, False, backend)
    torch.library.opcheck(
        torch.ops.representer.separable_convolution_backward.default,
        arguments,
        test_utils=("test_schema", "test_faketensor"),
    )
    assert mix.grad is not None
    assert mix.grad.abs().min() > 0


def test_operands_of_wrong_shapes_are_refused():
    x, mix, taps = _operands()
    with pytest.raises(ShapeError, match="more than 6 samples"):
        separable_convolution(x[:6], mix, taps)
    with pytest.raises(ShapeError, match="more than 60 samples"):
        separable_convolution(x, mix, taps, dilation=10)
    with pytest.raises(ArgumentError, match="stride"):
        separable_convolution(x, mix, taps, stride=0)
    with pytest.raises(ArgumentError, match="dilation"):
        separable_convolution(x, mix, taps, dilation=0)
