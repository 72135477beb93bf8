"""The public function rkm_scan."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from looped import looped
from ops.samples.rkm_scan import CELLS as NAMED
from ops.samples.rkm_scan import tensors
from representer import functional
from representer.errors import ArgumentError, KindError
from representer.functional import rkm
from representer.functional.rkm import Cell, Feedback, ForgetGate, InputGate, Memory
from representer.ops import rkm_scan
from representer.ops.rkm_scan.reference import ALL, CELLS, NOTHING, Operands

T, B, H = 5, 3, 4
ANY_CELL = st.builds(
    Cell, st.sampled_from(get_args(InputGate)), st.sampled_from(get_args(ForgetGate)),
    st.booleans(), candidate=st.sampled_from(["identity", "tanh"]),
    output=st.sampled_from(["identity", "tanh", "polynomial", "sigmoid"]),
    feedback=st.sampled_from(get_args(Feedback)), memory=st.sampled_from(get_args(Memory)),
)  # fmt: skip
OPTIONS = st.lists(st.sampled_from(["norm", "hold", "lengths"]), unique=True).map(" ".join)


@settings(deadline=None, max_examples=40)
@given(cell=ANY_CELL, options=OPTIONS, reverse=st.booleans())
def test_any_cell_matches_the_definition(cell: Cell, options: str, reverse: bool):
    assume(cell.input_gate != "coupled" or cell.forget_gate == "dynamic")
    operands: dict[str, Any] = {"weight": None, **tensors(cell, (T, B, H), options, torch.float64)}
    marked = [operands[k] for k in ("z", "weight", "h0", "c0", "static", "norm") if k in operands]
    marked = [tensor.requires_grad_() for tensor in marked if tensor is not None]
    found = rkm_scan(**operands, cell=cell, reverse=reverse)
    exact = functional.rkm_scan(**operands, cell=cell, reverse=reverse)
    assume(max(float(r.detach().abs().max()) for r in exact) < 1e6)  # e^c can run away
    torch.testing.assert_close(found, exact, rtol=1e-9, atol=1e-9)
    slopes = [torch.randn_like(result) for result in exact]
    torch.testing.assert_close(
        *(
            torch.autograd.grad(results, marked, slopes, materialize_grads=True)
            for results in (found, exact)
        ),
        rtol=1e-8,
        atol=1e-8,
    )


@settings(deadline=None, max_examples=20)
@given(cell=ANY_CELL, options=OPTIONS, biased=st.booleans(), reverse=st.booleans())
def test_input_and_filters_give_the_results_of_their_product(
    cell: Cell, options: str, biased: bool, reverse: bool
):
    assume(cell.input_gate != "coupled" or cell.forget_gate == "dynamic")
    given = tensors(cell, (T, B, H), f"input {options}", torch.float64)
    operands: dict[str, Any] = {"weight": None, **given}
    if not biased:
        del operands["bias"]
    marked = [
        x.requires_grad_()
        for n, x in operands.items()
        if x is not None and n not in ("hold", "lengths")
    ]
    z = torch.einsum("tbi,ghi->tbgh", operands["z"], operands["input_weight"])
    plain = {**operands, "z": z + operands.get("bias", 0), "input_weight": None, "bias": None}
    found = [
        rkm_scan(**given, cell=cell, reverse=reverse, recompute=recompute)
        for given, recompute in ((plain, False), (operands, False), (operands, True))
    ]
    assume(max(float(r.detach().abs().max()) for r in found[0]) < 1e6)
    slopes = [torch.randn_like(result) for result in found[0]]
    gradients = [
        torch.autograd.grad(results, marked, slopes, materialize_grads=True) for results in found
    ]
    for results, slope in zip(found[1:], gradients[1:], strict=True):
        torch.testing.assert_close(results, found[0], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(slope, gradients[0], rtol=1e-8, atol=1e-8)


def _operands(cell: Cell = rkm.RKM_LSTM, **changes: Any) -> dict[str, Any]:
    full = tensors(cell, (T, B, H), "norm hold lengths", torch.float32)
    return {"weight": None, **full, "cell": cell, **changes}


def test_cells_require_exactly_the_operands_that_they_use():
    with pytest.raises(KindError, match=r"weight is a tensor .*; expected None"):
        rkm_scan(**_operands(rkm.CNN, weight=torch.zeros(1, H, H)))
    with pytest.raises(KindError, match=r"static is None; expected a tensor \(2, 4\)"):
        rkm_scan(**_operands(rkm.CNN, static=None))


def test_a_candidate_whose_slope_does_not_follow_from_its_value_is_refused():
    cell = Cell("dynamic", "dynamic", True, candidate="polynomial")
    with pytest.raises(
        ArgumentError, match=r"candidate is 'polynomial'.*functional.rkm_scan takes"
    ):
        rkm_scan(**_operands(cell))


# The torch backend of rkm_scan: what it keeps for the gradient.


EVERY_CELL = pytest.mark.parametrize("cell", NAMED.values(), ids=NAMED)


def _forward(
    cell: Cell, options: str, *, reverse: bool = False, keep: int = ALL
) -> tuple[torch.Tensor, ...]:
    given = tensors(cell, (T, B, H), options, torch.float64)
    operands = [given.get(name) for name in Operands._fields[:-3]]
    return torch.ops.representer.rkm_scan(*operands, cell.code, reverse, keep, "reference")


@EVERY_CELL
@looped("reverse", [False, True])
@looped("options", ["", "input", "norm hold lengths"])
@looped("keep", [NOTHING, CELLS])
def test_what_is_kept_for_the_gradient_does_not_change_the_results(
    cell: Cell, reverse: bool, options: str, keep: int
):
    every = _forward(cell, options, reverse=reverse)
    fewer = _forward(cell, options, reverse=reverse, keep=keep)
    torch.testing.assert_close(fewer[:3], every[:3])
    assert every[3].shape == (T, B, len(cell.gates), H)
    assert fewer[3].numel() == 0
    assert every[4].shape == (T, B, H)
    for few, all_of in zip(fewer[4:], every[4:], strict=True):
        torch.testing.assert_close(few, all_of if keep == CELLS else few.new_empty(0))


def test_cells_before_norm_or_zoneout_are_kept_only_where_they_differ():
    sizes = {
        options: _forward(NAMED["lstm"], options)[5].numel()
        for options in ("", "lengths", "norm", "hold")
    }
    assert sizes == {"": 0, "lengths": 0, "norm": T * B * H, "hold": T * B * H}
