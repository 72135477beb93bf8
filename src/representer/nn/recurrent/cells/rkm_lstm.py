"""RKM-LSTM, L19 (10), (18), (19)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from representer.errors import ArgumentError, ShapeError
from representer.functional import cell as cells
from representer.nn.recurrent.cells.ngram_lstm import reordered
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

    @classmethod
    def from_keras(cls, weights: Sequence[Any]) -> RKMLSTM:
        """Convert the weights of Keras's ``LSTM(activation="linear")`` to an equivalent layer.

        With a linear activation, Keras's layer is an RKM-LSTM with a bias on the candidate. The
        layer returns all outputs ``(B, T, H)``, as Keras does with ``return_sequences=True``.

        Args:
            weights: ``layer.get_weights()``: the kernel ``(I, 4H)``, the recurrent kernel
                ``(H, 4H)`` and, if the layer has one, the bias ``(4H,)``, with the gates in Keras's
                order i, f, c, o; of a ``Bidirectional`` layer, those of both directions.

        Raises:
            ArgumentError: If these are not two or three arrays for each direction.
            ShapeError: If their shapes do not fit together.

        Examples:
            >>> import numpy as np
            >>> weights = [np.ones((3, 16)), np.ones((4, 16)), np.zeros(16)]
            >>> RKMLSTM.from_keras(weights)
            RKMLSTM(3, 4, batch_first=True, candidate_bias=True)
        """
        arrays = [torch.tensor(array) for array in weights]
        is_biased = len(arrays) % 3 == 0
        per_direction = 3 if is_biased else 2
        if len(arrays) not in (2, 3, 4, 6):
            expected = "3, as layer.get_weights() returns: kernel, recurrent kernel and bias"
            hint = "There are 2 without a bias, and twice as many for both directions."
            raise ArgumentError("len(weights)", len(arrays), expected, hint=hint)
        directions = [arrays[i : i + per_direction] for i in range(0, len(arrays), per_direction)]
        features, units = arrays[0].shape[0], arrays[1].shape[0]
        shapes = [(features, 4 * units), (units, 4 * units), (4 * units,)][:per_direction]
        for i, array in enumerate(arrays):
            if array.shape != shapes[i % per_direction]:
                name, expected = f"weights[{i}]", str(shapes[i % per_direction])
                hint = "The layer must be an LSTM; a GRU has three gates."
                raise ShapeError(name, array.shape, expected, hint=hint)
        layer = cls(
            features, units, bias=is_biased, batch_first=True, bidirectional=len(directions) == 2,
            candidate_bias=is_biased, dtype=arrays[0].dtype,
        )  # fmt: skip
        names = ("weight_ih", "weight_hh", "bias")
        layer.load_state_dict({
            name + suffix: reordered(array.mT if array.dim() == 2 else array)
            for suffix, direction in zip(layer.suffixes, directions, strict=True)
            for name, array in zip(names, direction, strict=False)
        })  # fmt: skip
        return layer
