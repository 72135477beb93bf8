"""The contribution of each step of a sequence to the output of a layer."""

from __future__ import annotations

import torch
from torch import Tensor

from representer.errors import KindError
from representer.explain.checks import check_sequence
from representer.explain.recurrent_contributions import recurrent_contributions
from representer.explain.string_readout import string_readout
from representer.nn import StringKernelRNN
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine


def influence(layer: RecurrentKernelMachine | StringKernelRNN, input: Tensor) -> Tensor:
    """Split the last output of a layer into the contributions of the steps of its input.

    The contributions sum exactly to the output of the layer in evaluation mode, from a zero state.
    The gates are treated as constants: the effect of a step on the gates of later steps is not
    attributed to it, since it scales the contributions of other steps.

    In a string-kernel network, the contribution of an n-gram is divided equally among its tokens.
    This is their Shapley value, where missing tokens are zeros. A tanh or relu scales the
    contributions by tanh(c)/c or relu(c)/c, treated as a constant.

    Args:
        layer: A cell without tanh on candidate and output: RKM-LSTM, RKM-CIFG, RAN, Gated CNN,
            the linear kernel with an output gate or ``output_nonlinearity="identity"``, or an RKM
            of ``q="linear"``, without layer norm (`memory_ledger` supports it); or a string-kernel
            network with any activation except the sigmoid. One layer, one direction.
        input: One sequence.

    Shape:
        - input ``(T, I)``
        - returns ``(T, H)``; the sum over T is the last output

    Raises:
        KindError: If the layer's output is not such a sum (the message states the reason), or if
            the input is not a tensor, or its dtype or device differs from the layer's.
        ShapeError: If the input is not one sequence.
        ArgumentError: If a step of the input is not finite.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (9), (20).
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (4), sections 4 and 6.1.
    """
    if isinstance(layer, StringKernelRNN):
        last = check_sequence(layer, input).new_zeros(len(input), layer.hidden_size)
        last[-1] = 1
        return string_readout(layer, input, last).steps().to(input.dtype)
    if isinstance(layer, RecurrentKernelMachine):
        with torch.no_grad():
            return recurrent_contributions(layer, check_sequence(layer, input))
    raise KindError(
        "layer", type(layer).__name__, "a layer of the recurrent kernel machines or StringKernelRNN"
    )
