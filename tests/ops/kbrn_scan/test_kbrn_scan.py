"""kbrn_scan beyond the generated tests: large batches, threads, centers, errors."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from looped import looped
from ops.samples.kbrn_scan import tensors
from representer import functional
from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional import GREENS
from representer.ops import OPS, core, kbrn_scan

BACKENDS = [b.name for b in OPS["kbrn_scan"].backends.values() if not b.missing]
OPTIONS = ("", "line norm", "line batch", "norm lengths", "batch lengths")
NEEDS_CORE = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)


def arguments(sizes, words, dtype=torch.float64, **options):
    given = tensors(sizes, words, dtype, scale=options.pop("scale", 0.3))
    if "lengths" in words:
        given["lengths"] = torch.arange(sizes[1]).remainder(sizes[0] + 1).flip(0)
    for name in set(given) - {"statistics", "lengths"}:
        given[name].requires_grad_()
    return {**given, "batch_statistics": "batch" in words, **options}


def values_and_gradients(function, given, dtype=torch.float64):
    given = {
        name: x.detach().to(dtype).requires_grad_(x.requires_grad)
        if isinstance(x, torch.Tensor) and x.is_floating_point()
        else x
        for name, x in given.items()
    }
    output, h = function(**given)[:2]
    marked = [x for x in given.values() if isinstance(x, torch.Tensor) and x.requires_grad]
    weight = torch.linspace(-1, 2, output.numel(), dtype=dtype).reshape(output.shape)
    loss = (output * weight).sum() + h.square().sum()
    return output, h, *torch.autograd.grad(loss, marked)


def assert_near(found, expected, share):
    for ours, theirs in zip(found, expected, strict=True):
        scale = max(1.0, theirs.abs().max().item())
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=share * scale)


@NEEDS_CORE
@pytest.mark.parametrize("words", OPTIONS)
@looped("green", GREENS)
def test_every_instruction_set_and_size_matches_the_definition(green, words):
    """Batches around a block, units around a vector, one and two threads, both precisions."""
    small = {"scale": 0.02} if green == "cubic" else {}
    for sizes in ((3, 2, 1), (2, 63, 9), (3, 64, 3), (2, 65, 17), (2, 150, 20)):
        given = arguments(sizes, words, green=green, **small)
        expected = values_and_gradients(functional.kbrn_scan, given)
        for name, dtype in product(core.USABLE, (torch.float64, torch.float32)):
            with core.instruction_set(name):
                found = values_and_gradients(
                    lambda **of: kbrn_scan(**of, backend="cpp"), given, dtype
                )
            # the inputs of an expansion may fall to either side of a corner in float32
            assert_near(found, expected, 1e-10 if dtype == torch.float64 else 1e-2)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("green", ["abs", "relu", "cubic"])
@pytest.mark.parametrize("has_line", [False, True])
def test_inputs_at_centers_have_the_derivatives_of_torch(backend, green, has_line):
    """Integers everywhere, so that sums lie on centers, some of them at one place."""
    draw = torch.Generator().manual_seed(0)
    whole = lambda *shape: torch.randint(-2, 3, shape, generator=draw).double()  # noqa: E731
    given = {"z": whole(1, 40, 3), "h0": whole(40, 3), "centers": whole(3, 6),
             "coefficients": whole(3, 6) / 8, "weight": whole(3, 3)}  # fmt: skip
    given |= {"line": whole(3, 2)} if has_line else {}
    given = {name: x.requires_grad_() for name, x in given.items()} | {"green": green}
    found = values_and_gradients(lambda **of: kbrn_scan(**of, backend=backend), given)
    assert_near(found, values_and_gradients(functional.kbrn_scan, given), 1e-10)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_gradient_of_a_batch_of_equal_rows_is_finite(backend):
    given = arguments((3, 4, 2), "batch")
    given["z"] = torch.ones_like(given["z"]).requires_grad_()
    given["h0"] = torch.zeros_like(given["h0"]).requires_grad_()
    found = values_and_gradients(lambda **of: kbrn_scan(**of, backend=backend), given)
    assert all(x.isfinite().all() for x in found)


@pytest.mark.parametrize(("changes", "error", "message"), [
    ({"centers": torch.zeros(3, 0)}, ShapeError, "at least one center"),
    ({"z": torch.zeros(0, 4, 3)}, ShapeError, "at least one step"),
    ({"norm": torch.ones(2, 3)}, KindError, "statistics is None; expected a tensor"),
    ({"green": "spline"}, ArgumentError, "green is 'spline'"),
    ({"bandwidth": 0.0}, ArgumentError, "bandwidth is 0.0"),
    ({"epsilon": 0.0}, ArgumentError, "epsilon is 0.0"),
    ({"lengths": torch.tensor([6, 1, 1, 1])}, ArgumentError, r"lengths\[0\] is 6"),
])  # fmt: skip
def test_invalid_operands_are_rejected(changes, error, message):
    given = tensors((5, 4, 3), "", torch.float32)
    with pytest.raises(error, match=message):
        kbrn_scan(**{**given, **changes})
