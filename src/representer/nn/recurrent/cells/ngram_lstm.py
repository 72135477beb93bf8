"""n-gram LSTM, L19 section 4.3 and Table 1."""

from __future__ import annotations

import torch
from torch import Tensor

from representer.errors import ArgumentError
from representer.functional import cell as cells
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine

TORCH_ORDER = ("input", "forget", "candidate", "output")  # of the gates in torch and Keras


def reordered(stacked: Tensor) -> Tensor:
    """Return weights ``(4H, …)`` with their gates in the order of ``Cell.gates``."""
    order = [TORCH_ORDER.index(gate) for gate in cells.LSTM.gates]
    return stacked.unflatten(0, (len(order), -1))[order].flatten(0, 1)


class NgramLSTM(RecurrentKernelMachine):
    r"""The LSTM with n-gram filters in every gate.

    .. math::
        c_t = \eta_t \odot \tanh(\tilde c_t) + f_t \odot c_{t-1}, \qquad h_t = o_t \odot \tanh(c_t)

    For ``filter_length=1`` it is ``torch.nn.LSTM`` with one bias instead of two.

    Arguments, shapes and state are those of
    :class:`~representer.nn.recurrent.machine.kernel_machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        section 4.3, Table 1.
    """

    cell = cells.LSTM

    @classmethod
    def from_torch(cls, lstm: torch.nn.LSTM) -> NgramLSTM:
        """Convert a ``torch.nn.LSTM`` to an equivalent layer with copied weights.

        Args:
            lstm: The layer to copy; its two biases are added.

        Raises:
            ArgumentError: If it has a projection, which this layer does not support.

        Examples:
            >>> lstm = torch.nn.LSTM(3, 4, bidirectional=True)
            >>> x = torch.randn(5, 2, 3)
            >>> torch.allclose(NgramLSTM.from_torch(lstm)(x)[0], lstm(x)[0], atol=1e-6)
            True
        """
        if lstm.proj_size:
            raise ArgumentError("lstm.proj_size", lstm.proj_size, "0")
        like = next(lstm.parameters())
        layer = cls(
            lstm.input_size, lstm.hidden_size, lstm.num_layers, lstm.bias, lstm.batch_first,
            lstm.dropout, lstm.bidirectional, device=like.device, dtype=like.dtype,
        )  # fmt: skip

        def gates(name: str) -> Tensor:
            return reordered(getattr(lstm, name).detach())

        weights = {}
        for suffix in layer.suffixes:
            for name in ("weight_ih", "weight_hh"):
                weights[name + suffix] = gates(name + suffix)
            if lstm.bias:
                weights["bias" + suffix] = gates("bias_ih" + suffix) + gates("bias_hh" + suffix)
        layer.load_state_dict(weights)
        return layer.train(lstm.training)
