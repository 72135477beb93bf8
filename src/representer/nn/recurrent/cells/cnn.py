"""CNN, L19 section 4.2."""

from __future__ import annotations

from representer.functional import cell as cells
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine


class CNN(RecurrentKernelMachine):
    r"""The convolutional network: the linear kernel without memory and feedback.

    .. math::
        h_t = \tanh(\tilde X \cdot X_t)

    Arguments, shapes and state are those of
    :class:`~representer.nn.recurrent.machine.kernel_machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        section 4.2, Table 1.
    """

    cell = cells.CNN
