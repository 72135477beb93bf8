"""The cells of L19 as layers, and its Table 1."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Unpack, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.checks import installed, is_integer
from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional import NONLINEARITIES, rkm
from representer.functional.rkm import Cell
from representer.nn.layer import check_flag
from representer.nn.recurrent.filters import WaveletFilters, Wavelets
from representer.nn.recurrent.machine import RecurrentKernelMachine, name_of
from representer.nn.recurrent.sequence_layer import (
    CellOptions,
    MachineOptions,
    shows,
    with_defaults,
)

# CNN, L19 section 4.2.


class CNN(RecurrentKernelMachine):
    r"""The convolutional network: the linear kernel without memory and feedback.

    .. math::
        h_t = \tanh(\tilde X \cdot X_t)

    Arguments, shapes and state are those of
    :class:`~representer.nn.recurrent.machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        section 4.2, Table 1.
    """

    cell = rkm.CNN


# Gated CNN, L19 (16).


class GatedCNN(RecurrentKernelMachine):
    r"""The gated convolutional network: no memory, no feedback, a dynamic output gate.

    .. math::
        h_t = \sigma(\tilde X_o \cdot X_t + b_o) \odot (\tilde X \cdot X_t)

    Arguments, shapes and state are those of
    :class:`~representer.nn.recurrent.machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        (16).
        Dauphin et al., Language Modeling with Gated Convolutional Networks, ICML 2017.
    """

    cell = rkm.GATED_CNN


# Linear kernel with static gates, L19 (9), (15).


class LinearKernelRNN(RecurrentKernelMachine):
    r"""The recurrent kernel machine of a linear kernel, with static gates.

    .. math::
        c_t = \sigma_i^2 (\tilde X \cdot X_t + \tilde H h_{t-1}) + \sigma_f^2 c_{t-1}

    and :math:`h_t = o_t \odot c_t` with an output gate, :math:`h_t = \tanh(c_t)` without (Table 1;
    ``output_nonlinearity="identity"`` is equation (9)). The input of N steps ago has the weight
    :math:`\sigma_i^2 \sigma_f^{2N}`. Without feedback, the state is bounded if σ_f² < 1; with
    feedback, only layer norm bounds it.

    Args:
        output_gate: Add a dynamic output gate.
        static_gates: The pair (σ_i², σ_f²).
        learn_static_gates: Learn the gates: one σ_i², and one σ_f² per unit, in (0, 1).
        feedback: Feed h_{t−1} back to the cell; False is equation (15).

    The other arguments, the shapes and the state are those of
    :class:`~representer.nn.recurrent.machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        (9), (15).
    """

    @shows(CellOptions)
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        output_gate: bool = True,
        static_gates: tuple[float, float] = (0.5, 0.5),
        learn_static_gates: bool = False,
        feedback: bool = True,
        **options: Unpack[CellOptions],
    ) -> None:
        output_gate = check_flag("output_gate", output_gate)
        feedback = check_flag("feedback", feedback)
        learn_static_gates = check_flag("learn_static_gates", learn_static_gates)
        row = rkm.LINEAR_KERNEL_GATED if output_gate else rkm.LINEAR_KERNEL
        self.cell = row if feedback else replace(row, feedback="none")
        self.output_gate, self.feedback = output_gate, feedback
        self.static, self.learn_static = static_gates, learn_static_gates
        layout = num_layers, bias, batch_first, dropout, bidirectional
        super().__init__(input_size, hidden_size, *layout, **options)
        self._shown |= {"static_gates": static_gates, "learn_static_gates": learn_static_gates}


# n-gram LSTM, L19 section 4.3 and Table 1.

TORCH_ORDER = ("input", "forget", "candidate", "output")  # of the gates in torch and Keras


def reordered(stacked: Tensor) -> Tensor:
    """Return weights ``(4H, …)`` with their gates in the order of ``Cell.gates``."""
    order = [TORCH_ORDER.index(gate) for gate in rkm.LSTM.gates]
    return stacked.unflatten(0, (len(order), -1))[order].flatten(0, 1)


class NgramLSTM(RecurrentKernelMachine):
    r"""The LSTM with n-gram filters in every gate.

    .. math::
        c_t = \eta_t \odot \tanh(\tilde c_t) + f_t \odot c_{t-1}, \qquad h_t = o_t \odot \tanh(c_t)

    For ``filter_length=1`` it is ``torch.nn.LSTM`` with one bias instead of two.

    Arguments, shapes and state are those of
    :class:`~representer.nn.recurrent.machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        section 4.3, Table 1.
    """

    cell = rkm.LSTM

    @classmethod
    def from_torch(cls, lstm: torch.nn.LSTM) -> NgramLSTM:
        """Convert a ``torch.nn.LSTM`` to an equivalent layer with copied weights.

        Args:
            lstm: The layer to copy; its two biases are added.

        Raises:
            KindError: If it is another layer.
            ArgumentError: If it has a projection, which this layer does not support.

        Examples:
            >>> lstm = torch.nn.LSTM(3, 4, bidirectional=True)
            >>> x = torch.randn(5, 2, 3)
            >>> torch.allclose(NgramLSTM.from_torch(lstm)(x)[0], lstm(x)[0], atol=1e-6)
            True
        """
        if not isinstance(lstm, torch.nn.LSTM):
            raise KindError("lstm", type(lstm).__name__, "a torch.nn.LSTM")
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


# Recurrent additive network, L19 section 3.2.


class RAN(RecurrentKernelMachine):
    r"""The recurrent additive network: an RKM-LSTM with o_t = 1 and a candidate without feedback.

    .. math::
        \tilde c_t = \tilde X \cdot X_t, \qquad
        h_t = c_t = \eta_t \odot \tilde c_t + f_t \odot c_{t-1}

    Arguments, shapes and state are those of
    :class:`~representer.nn.recurrent.machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        section 3.2.
        Lee, Levy and Zettlemoyer, Recurrent Additive Networks, 2017.
    """

    cell = rkm.RAN


# The recurrent kernel machine for any kernel q, L19 (6), (8), (14), (17).

Q = str | Callable[[Tensor], Tensor]


class UnitFunctions(nn.Module):
    """Elementwise functions of different units ``(…, H)``, L19 section 4.1."""

    def __init__(self, q: Sequence[Q]) -> None:
        super().__init__()
        self.q = tuple(q)
        self.units = {function: [i for i, other in enumerate(q) if other == function]
                      for function in dict.fromkeys(q)}  # fmt: skip
        self.modules_of_q = nn.ModuleList(f for f in self.units if isinstance(f, nn.Module))
        order = [i for units in self.units.values() for i in units]
        self.inverse = sorted(range(len(order)), key=order.__getitem__)

    def forward(self, z: Tensor) -> Tensor:
        """Apply the function of each unit."""
        values = [
            (NONLINEARITIES[f].value if isinstance(f, str) else f)(z[..., units])
            for f, units in self.units.items()
        ]
        return torch.cat(values, dim=-1)[..., self.inverse]


def read_q(q: Any, hidden_size: int) -> Q:
    """Return q of all units, given one, one of each unit, or a dict ``{q: units}``."""
    names = f"a callable or one of {', '.join(NONLINEARITIES)}"
    several = q
    if isinstance(q, dict):
        if not all(is_integer(units, 1) for units in q.values()):
            raise ArgumentError("q", q, "a dict {q: units} of positive integers")
        several = tuple(f for f, units in q.items() for _ in range(units))
    if not isinstance(several, (tuple, list)):
        if callable(q) or (isinstance(q, str) and q in NONLINEARITIES):
            return cast(Q, q)
        raise ArgumentError("q", q, f"{names}; or a tuple or dict of them, for each unit")
    if len(several) != hidden_size:
        expected = f"one q for each of hidden_size = {hidden_size} units"
        raise ArgumentError("q", q, expected, hint=f"They are {len(several)}.")
    for f in several:
        if f == "gaussian" or (not callable(f) and f not in NONLINEARITIES):
            hint = "Units of a Gaussian compare distances; give them a layer of their own."
            hint = hint if f == "gaussian" else ""
            raise ArgumentError("q", f, f"for each unit, {names}", hint=hint)
    return UnitFunctions(several)


class RKM(RecurrentKernelMachine):
    r"""The recurrent kernel machine: unit i evaluates a recurrent kernel against its filter.

    .. math::
        c_t = \tilde X \cdot X_t + \tilde H h_{t-1} + q(c_{t-1}), \qquad h_t = q(c_t)

    Without feedback, h_t is the kernel of (5) between the sequence and the filter, exactly. The
    memory term before the first step is 0. ``q="gaussian"`` is the form of the footnote on Gaussian
    kernels, :math:`c_t = -\tfrac12 \lVert\tilde z - z_t\rVert^2`, :math:`h_t = e^{c_t}`, on inputs
    and filters that are scaled to unit length or, with ``unit_norm=False``, of any length.

    Args:
        bias: False, in the position that it has in ``torch.nn.LSTM``; there are no biases.
        q: A name of ``functional.NONLINEARITIES``, or an elementwise callable, which is
            differentiated by autograd; a module may have parameters. Or one for each unit
            (section 4.1): a tuple of H of them, or a dict ``{q: units}`` in unit order.
        feedback: Feed h_{t−1} back to the cell through H̃ (8); otherwise (6).
        unit_norm: Scale windows and filters to unit length, for ``q="gaussian"``.

    There are no gates. The other arguments, the shapes and the state are those of
    :class:`~representer.nn.recurrent.machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        (5)-(8), (17), section 4.1, footnote 2 (footnote 1 of the text on arXiv).
    """

    check_mercer = True  # False for the network of a kernel that is not checked

    @shows(MachineOptions)
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = False,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        q: Q | Sequence[Q] | dict[Q, int] = "tanh",
        feedback: bool = True,
        unit_norm: bool = True,
        **options: Unpack[MachineOptions],
    ) -> None:
        f = read_q(q, hidden_size)
        self.unit_norm = check_flag("unit_norm", unit_norm)
        with_defaults(MachineOptions, options)
        feedback = check_flag("feedback", feedback)
        if check_flag("bias", bias):
            hint = "Positional arguments are in the order of torch.nn.LSTM."
            raise ArgumentError("bias", bias, "False: its equations have no bias", hint=hint)
        self.feedback = feedback
        seen, memory = "all" if feedback else "none", "expm1" if f == "gaussian" else "output"
        self.cell = Cell("static", "static", False, feedback=seen, memory=memory)
        layout = num_layers, False, batch_first, dropout, bidirectional
        super().__init__(input_size, hidden_size, *layout, output_nonlinearity=f, **options)
        self._shown["q"] = q if isinstance(f, UnitFunctions) else name_of(f)

    @property
    def q(self) -> Q | tuple[Q, ...]:
        """The function q, by name if it has one; a tuple if each unit has its own."""
        if isinstance(self.psi, UnitFunctions):
            return self.psi.q
        return self.cell.output if self.psi is None else self.psi


# RKM-CIFG, L19 section 3.2.


class RKMCIFG(RecurrentKernelMachine):
    r"""The RKM-LSTM with an input gate coupled to the forget gate, η_t = 1 − f_t.

    .. math::
        c_t = (1 - f_t) \odot \tilde c_t + f_t \odot c_{t-1}, \qquad h_t = o_t \odot c_t

    Arguments, shapes and state are those of
    :class:`~representer.nn.recurrent.machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        section 3.2.
    """

    cell = rkm.RKM_CIFG


# RKM-LSTM, L19 (10), (18), (19).


class RKMLSTM(RecurrentKernelMachine):
    r"""The recurrent kernel machine with three dynamic gates.

    .. math::
        \tilde c_t &= \tilde X \cdot X_t + \tilde H h_{t-1} \\
        c_t &= \eta_t \odot \tilde c_t + f_t \odot c_{t-1}, \qquad h_t = o_t \odot c_t

    with gates :math:`\sigma(\tilde X_\cdot \cdot X_t + \tilde W_\cdot h_{t-1} + b_\cdot)`:
    an LSTM without tanh and without a bias on the candidate.
    ``output_nonlinearity="tanh"`` gives section 3.2's variant.

    Arguments, shapes and state are those of
    :class:`~representer.nn.recurrent.machine.RecurrentKernelMachine`.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        (10), (11), (18), (19).
    """

    cell = rkm.RKM_LSTM

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


# The filters of SyncNet, the row CNN of L19 Table 4.


class SyncNet(nn.Module):
    r"""Wavelet filters over a whole signal, centered on their sample, with a bias and relu.

    .. math::
        h_{t,k} = \max\Bigl(0, b_k + \sum_c \sum_{s=-n/2}^{n/2-1}
        \alpha_{ck} \cos(\omega_k s + \phi_{ck}) e^{-\beta_k s^2} x_{t+s,c}\Bigr)

    The signal is 0 outside of the window. Unlike the cells of Table 1, it has no gate and reads
    samples after t; the filters themselves are theirs.

    Args:
        input_size: Channels C.
        hidden_size: Filters K.
        filter_length: n, samples of a filter.
        stride: Samples between two outputs.
        filters: ``"wavelet"``.
        free_phase: Learn the phase of the first channel, too.
        sampling_rate: In Hz; None for samples.
        batch_first: Input and output are ``(B, T, …)``.

    Shape:
        - input ``(T, B, C)``
        - output ``(T / stride, B, K)``, and None in place of a state

    Raises:
        ArgumentError: If the filters are no wavelets.

    References:
        Li et al., Targeting EEG/LFP Synchrony with Neural Nets, NeurIPS 2017.
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, section 6.
    """

    def __init__(
        self, input_size: int, hidden_size: int, *, filter_length: int = 40, stride: int = 1,
        filters: str = "wavelet", free_phase: bool = False, sampling_rate: float | None = None,
        batch_first: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if filters != "wavelet":
            raise ArgumentError("filters", filters, "'wavelet' for SyncNet")
        self.hidden_size, self.stride, self.batch_first = hidden_size, stride, batch_first
        self.convolution = WaveletFilters(
            1, input_size, hidden_size, filter_length,
            stride=stride, free_phase=free_phase, sampling_rate=sampling_rate,
        )  # fmt: skip
        self.bias = nn.Parameter(torch.zeros(hidden_size))
        self.convolution.reset_parameters()

    def forward(self, input: Tensor) -> tuple[Tensor, None]:
        """Return the outputs of all filters; see the class."""
        x = input.transpose(0, 1) if self.batch_first else input
        n = self.convolution.n
        product = self.convolution(F.pad(x, (0, 0, 0, 0, n // 2, n - 1 - n // 2)))[:, :, 0]
        output = F.relu(product + self.bias.to(product.dtype))
        return output.transpose(0, 1) if self.batch_first else output, None

    def wavelets(self) -> dict[str, Wavelets]:
        """Return the wavelets; ω/2π is in Hz if there is a sampling rate."""
        return {"candidate": self.convolution.wavelets(0)}

    def filters(self) -> dict[str, Tensor]:
        """Return the filters ``(K, C, n)``."""
        return {"candidate": self.convolution.effective()[0].detach()}


# L19 Table 1: the paper's name of each row, with its constructor.


def layer_of(name: str, cell: Cell | type[RecurrentKernelMachine]) -> type[RecurrentKernelMachine]:
    """Return the layer class of a cell, with the arguments of `RecurrentKernelMachine`.

    ``my-cell`` names the class ``MyCell``; a layer class is returned as it is.
    """
    if isinstance(cell, type):
        return cell
    title = re.sub(r"\W|_", "", name.title())  # pickle reads a dot as that of an inner class
    return type(title, (RecurrentKernelMachine,), {"cell": cell, "__doc__": f"The cell {name}."})


TABLE1: dict[str, Callable[..., RecurrentKernelMachine]] = {
    "LSTM": NgramLSTM,
    "RKM-LSTM": RKMLSTM,
    "RKM-CIFG": RKMCIFG,
    "Linear Kernel w/ o_t": partial(LinearKernelRNN, output_gate=True),
    "Linear Kernel": partial(LinearKernelRNN, output_gate=False),
    "Gated CNN": GatedCNN,
    "CNN": CNN,
}


@cache
def table_with_installed() -> dict[str, Callable[..., RecurrentKernelMachine]]:
    """Return `TABLE1`, with the cells of installed packages."""
    TABLE1.update({name: layer_of(name, cell) for name, cell in installed("cells").items()})
    return TABLE1


def __getattr__(name: str) -> Any:
    """Return the class of a cell without one of its own, as which a layer of it is pickled."""
    layers = () if name.startswith("_") else table_with_installed().values()  # not while importing
    for layer in layers:
        if isinstance(layer, type) and (layer.__module__, layer.__name__) == (__name__, name):
            return layer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
