"""How much each step of a sequence adds to the output of a layer."""

from __future__ import annotations

import torch
from torch import Tensor

from representer.errors import KindError
from representer.explain.checks import check_sequence
from representer.explain.recurrent_contributions import recurrent_contributions
from representer.explain.string_readout import string_readout
from representer.nn import StringKernelRNN
from representer.nn.recurrent.kernel_machine import RecurrentKernelMachine


def influence(layer: RecurrentKernelMachine | StringKernelRNN, input: Tensor) -> Tensor:
    """Split the last output of a layer into the shares of the steps of its input.

    The shares sum to the output exactly, from a zero state, as the layer computes it in evaluation.
    They are exact given the gates: what a step did to the gates of later steps is not counted
    as its own, since it scales the shares of other steps.

    In a string-kernel network every n-gram is shared out equally among its tokens, as each of them
    is needed for it (so Shapley's value, tokens left out being zeros), and a state under tanh or
    relu in proportion, tanh(c)/c held like a gate.

    Args:
        layer: A cell without tanh on candidate and output: RKM-LSTM, RKM-CIFG, RAN, Gated CNN,
            the linear kernel with an output gate or ``output_nonlinearity="identity"``, or an RKM
            of ``q="linear"``, without layer norm (`memory_ledger` takes one); or a string-kernel
            network with any activation but the sigmoid. One layer, one direction.
        input: One sequence.

    Shape:
        - input ``(T, I)``
        - returns ``(T, H)``; its sum over T is the output of step T

    Raises:
        KindError: If the layer's output is no such sum, with the reason; or if the input is no
            tensor, or of another dtype or device.
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
