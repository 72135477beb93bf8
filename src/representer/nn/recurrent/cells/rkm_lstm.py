"""RKM-LSTM, L19 (10), (18), (19)."""

from __future__ import annotations

from representer.functional import cell as cells
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine


class RKMLSTM(RecurrentKernelMachine):
    r"""The recurrent kernel machine with three dynamic gates.

    .. math::
        \tilde c_t &= \tilde X \cdot X_t + \tilde H h_{t-1} \\
        c_t &= \eta_t \odot \tilde c_t + f_t \odot c_{t-1}, \qquad h_t = o_t \odot c_t

    with gates :math:`\sigma(\tilde X_\cdot \cdot X_t + \tilde W_\cdot h_{t-1} + b_\cdot)`:
    an LSTM without tanh and without a bias on the candidate.
    ``output_nonlinearity="tanh"`` gives section 3.2's variant.

    Arguments, shapes and state are those of
    :class:`~representer.nn.recurrent.machine.kernel_machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        (10), (11), (18), (19).
    """

    cell = cells.RKM_LSTM
