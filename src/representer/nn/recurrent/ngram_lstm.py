"""n-gram LSTM, L19 section 4.3 and Table 1."""

from __future__ import annotations

from representer.functional import cell as cells
from representer.nn.recurrent.kernel_machine import RecurrentKernelMachine


class NgramLSTM(RecurrentKernelMachine):
    r"""The LSTM, with n-gram filters in every gate.

    .. math::
        c_t = \eta_t \odot \tanh(\tilde c_t) + f_t \odot c_{t-1}, \qquad h_t = o_t \odot \tanh(c_t)

    For ``filter_length=1`` it is ``torch.nn.LSTM`` with one bias instead of two.

    Arguments, shapes and state are those of
    :class:`~representer.nn.recurrent.kernel_machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        section 4.3, Table 1.
    """

    cell = cells.LSTM
