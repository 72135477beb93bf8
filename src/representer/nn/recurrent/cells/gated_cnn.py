"""Gated CNN, L19 (16)."""

from __future__ import annotations

from representer.functional import cell as cells
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine


class GatedCNN(RecurrentKernelMachine):
    r"""The gated convolutional network: no memory, no feedback, a dynamic output gate.

    .. math::
        h_t = \sigma(\tilde X_o \cdot X_t + b_o) \odot (\tilde X \cdot X_t)

    Arguments, shapes and state are those of
    :class:`~representer.nn.recurrent.machine.kernel_machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        (16).
        Dauphin et al., Language Modeling with Gated Convolutional Networks, ICML 2017.
    """

    cell = cells.GATED_CNN
