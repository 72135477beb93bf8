"""The warning about a state that diverges in training."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from representer import nn
from representer.nn.recurrent.machine import RecurrentKernelMachine

LINEAR = (nn.RKMLSTM, nn.RKMCIFG, nn.LinearKernelRNN)
BOUNDED: list[dict[str, Any]] = [{"output_nonlinearity": "tanh"}, {"layer_norm": True}]


def run(
    kind: Callable[..., RecurrentKernelMachine], scale: float = 50.0, **options: Any
) -> RecurrentKernelMachine:
    """Run a layer whose recurrent weights learning has made too large."""
    torch.manual_seed(0)
    layer = kind(4, 8, **options)
    with torch.no_grad():
        layer.weight_hh_l0.mul_(scale)  # type: ignore[operator]
    layer(torch.randn(200, 3, 4))
    return layer


@pytest.mark.parametrize("kind", LINEAR)
def test_a_linear_cell_that_diverges_warns_with_the_fix(kind: type[RecurrentKernelMachine]):
    with pytest.warns(UserWarning, match=f"state of {kind.__name__} .* layer_norm=True, clip"):
        run(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(kind, scale=0.5)
        for options in BOUNDED:
            run(kind, **options)


def test_only_training_on_finite_inputs_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer = nn.RKMCIFG(3, 4)
        layer(torch.full((9, 1, 3), float("nan")))
        large = torch.full((9, 1, 3), 3e38)
        with torch.no_grad():
            layer(large)
        layer.eval()(large)
        assert not layer(large)[0].isfinite().all()


def test_the_state_inside_vmap_is_not_read():
    layer, x = nn.RKMCIFG(3, 4), torch.randn(2, 9, 1, 3)
    torch.testing.assert_close(torch.vmap(lambda x: layer(x)[0])(x)[0], layer(x[0])[0])
