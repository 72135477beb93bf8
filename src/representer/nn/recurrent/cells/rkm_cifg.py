"""RKM-CIFG, L19 section 3.2."""

from __future__ import annotations

from representer.functional import cell as cells
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine


class RKMCIFG(RecurrentKernelMachine):
    r"""The RKM-LSTM with an input gate coupled to the forget gate, η_t = 1 − f_t.

    .. math::
        c_t = (1 - f_t) \odot \tilde c_t + f_t \odot c_{t-1}, \qquad h_t = o_t \odot c_t

    Arguments, shapes and state are those of
    :class:`~representer.nn.recurrent.machine.kernel_machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        section 3.2.
    """

    cell = cells.RKM_CIFG
