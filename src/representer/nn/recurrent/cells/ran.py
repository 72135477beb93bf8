"""Recurrent additive network, L19 section 3.2."""

from __future__ import annotations

from representer.functional import cell as cells
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine


class RAN(RecurrentKernelMachine):
    r"""The recurrent additive network: an RKM-LSTM with o_t = 1 and a candidate without feedback.

    .. math::
        \tilde c_t = \tilde X \cdot X_t, \qquad
        h_t = c_t = \eta_t \odot \tilde c_t + f_t \odot c_{t-1}

    Arguments, shapes and state are those of
    :class:`~representer.nn.recurrent.machine.kernel_machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        section 3.2.
        Lee, Levy and Zettlemoyer, Recurrent Additive Networks, 2017.
    """

    cell = cells.RAN
