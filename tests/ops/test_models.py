"""Several models in one call: each runs on its part of the batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from representer.errors import ShapeError
from representer.functional.cell import LINEAR_KERNEL, LSTM, Cell
from representer.nn import RKMLSTM
from representer.ops import rkm_scan
from representer.ops.rkm_scan.samples import tensors

SHARED = ("input_weight", "bias", "weight", "static", "norm")


def operands(cell: Cell) -> dict[str, Tensor]:
    made = tensors(cell, (3, 4, 3), "models input norm lengths", torch.float64)
    return {n: x.requires_grad_() if x.is_floating_point() else x for n, x in made.items()}


def of_model(given: dict[str, Tensor], i: int) -> dict[str, Tensor]:
    rows = slice(2 * i, 2 * i + 2)
    return {
        name: x[i] if name in SHARED else x[:, rows] if name == "z" else x[rows]
        for name, x in given.items()
    }


@pytest.mark.parametrize("backend", [None, "reference"])
@pytest.mark.parametrize("cell", [LSTM, LINEAR_KERNEL])
def test_a_call_of_two_models_is_a_call_of_each(cell: Cell, backend: str | None):
    given = operands(cell)
    found = rkm_scan(**given, cell=cell, backend=backend)  # pyright: ignore[reportArgumentType]
    each = [
        rkm_scan(**of_model(given, i), cell=cell, backend=backend)  # pyright: ignore
        for i in range(2)
    ]
    for result, parts, axis in zip(found, zip(*each, strict=True), (1, 0, 0), strict=True):
        torch.testing.assert_close(result, torch.cat(parts, axis))
    marked = [x for x in given.values() if x.requires_grad]
    ones = sum(r.square().sum() for r in found), sum(r.square().sum() for o in each for r in o)
    torch.testing.assert_close(*(torch.autograd.grad(one, marked) for one in ones))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda p: {"norm": p["norm"][0]}, "expected a leading axis of 2 models"),
        (
            lambda p: {"norm": p["norm"][[0, 0, 0]]},
            r"norm has shape \(3, 2, 3\); expected .*\(2, 2, 3",
        ),
        (
            lambda p: {"z": p["z"][:, :3], "h0": p["h0"][:3], "c0": p["c0"][:3], "lengths": None},
            r"z has shape \(3, 3, 2\); expected a batch that is a multiple of 2 models",
        ),
    ],
)  # fmt: skip
def test_the_error_for_models_that_do_not_fit_names_the_operand(changed: Any, message: str):
    given = operands(LSTM)
    with pytest.raises(ShapeError, match=message):
        rkm_scan(**{**given, **changed(given)}, cell=LSTM)


def test_layers_under_vmap_have_values_and_gradients_of_their_own():
    members = [RKMLSTM(3, 4, dtype=torch.float64) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(members)  # pyright: ignore[reportArgumentType]
    x = torch.randn(5, 2, 3, dtype=torch.float64)

    def run(parameters: Any, buffers: Any) -> Tensor:
        return torch.func.functional_call(members[0], (parameters, buffers), x)[0]

    found = torch.vmap(run)(parameters, buffers)
    for member, output in zip(members, found, strict=True):
        torch.testing.assert_close(output, member(x)[0])
    (wanted,) = torch.autograd.grad(
        members[2](x)[0].sum(), members[2].get_parameter("weight_hh_l0")
    )
    (slopes,) = torch.autograd.grad(found[2].sum(), parameters["weight_hh_l0"])
    torch.testing.assert_close(slopes[2], wanted)
    assert not slopes[:2].any()
