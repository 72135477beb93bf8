"""A warning when the state of a cell that nothing bounds diverges in training."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from representer.ops.checks import can_be_read

if TYPE_CHECKING:
    from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine

SHORTEST = 8  # steps that are checked, so that the check costs little beside them


def warn_of_divergence(layer: RecurrentKernelMachine, x: Tensor, state: Any, /) -> None:
    """Warn if the new state of a layer is not finite though its input is.

    With feedback and without tanh, a step multiplies the state by matrices that learning can make
    too large. Only states on the CPU are checked, since others would have to be waited for.
    """
    cell = layer.cell
    is_linear = layer.psi is None and cell.output == cell.candidate == "identity"
    if not is_linear or cell.feedback != "all":
        return
    if not torch.is_grad_enabled() or not can_be_read(state.h) or x.shape[0] < SHORTEST:
        return
    if math.isfinite(float(state.h.detach().sum())) or not bool(x.isfinite().all()):
        return
    warnings.warn(
        f"The state of {layer._get_name()} is no longer finite: its steps are linear in the last "
        'output, and nothing bounds them. Use output_nonlinearity="tanh" or layer_norm=True, clip '
        "the norm of the gradient, or lower the learning rate.",
        stacklevel=2,
    )
