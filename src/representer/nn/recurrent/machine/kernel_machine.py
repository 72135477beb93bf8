"""The base class of all cells of L19 Table 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.errors import ArgumentError, KindError
from representer.functional import Cell, nonlinearity
from representer.nn.checks import check_probability
from representer.nn.has_kernel import HasKernel
from representer.nn.recurrent.initial import check_initialization
from representer.nn.recurrent.machine.direction import CellDirection
from representer.nn.recurrent.machine.divergence import warn_of_divergence
from representer.nn.recurrent.machine.filters import FilterBank
from representer.nn.recurrent.machine.initial import CellWeights, draw_cell, has_unit_start
from representer.nn.recurrent.machine.static_gates import StaticGates
from representer.nn.recurrent.machine.streaming_step import core_steps
from representer.nn.recurrent.machine.wavelet_filters import WaveletFilters, Wavelets
from representer.nn.recurrent.options import (
    CellOptions,
    OutputNonlinearity,
    shows,
    with_defaults,
    zoneout_pair,
)
from representer.nn.recurrent.sequence_layer import SequenceLayer
from representer.nn.recurrent.states import (
    RecurrentState,
    StateLayout,
    WindowedRecurrentState,
    WindowState,
)
from representer.nn.regularization.undropped import undropped

if TYPE_CHECKING:
    from representer.kernels import RecurrentKernel  # noqa: F401 (named in a string)

_STATES = {  # by memory, and by n-gram filters
    (True, True): WindowedRecurrentState,
    (True, False): RecurrentState,
    (False, True): WindowState,
    (False, False): WindowState,
}


class RecurrentKernelMachine(HasKernel["RecurrentKernel"], SequenceLayer):
    """A recurrent layer with the equations of a ``Cell``.

    A subclass defines its ``cell`` and the values of static gates.

    Args:
        input_size: I, features of one step.
        hidden_size: H, units.
        num_layers: L, stacked layers.
        bias: Add biases to the gates.
        batch_first: Input and output are ``(B, T, …)`` instead of ``(T, B, …)``.
        dropout: Dropout between layers.
        bidirectional: Add a reverse direction, from the true end of each sequence.
        filter_length: n, steps of a filter, or a dict ``{length: units}`` in unit order.
        dilation: Steps between the slots of a filter.
        filters: ``"dense"``, with independent coefficients, or ``"wavelet"``, with oscillations
            α cos(ωt + φ) exp(−βt²) in the first layer (L19 (21)) and dense filters of length 1 in
            further layers.
        stride: Number of input steps per step of the first layer, whose windows end with the last
            one of each stride; the length of an input must be a multiple of it.
        free_phase: Learn the phase of the first channel of a wavelet; otherwise it is 0.
        sampling_rate: Sampling rate of a signal in Hz, for `wavelets` in seconds; None for samples.
        layer_norm: Layer-normalize the new cell state before it is used and stored.
        output_nonlinearity: Replaces that of the cell: a name of ``functional.NONLINEARITIES``, or
            an elementwise callable or module, which is differentiated by autograd.
        forget_bias: Constant added to the bias of the forget gate, if any.
        candidate_bias: With `bias`, add one to the candidate, too, as the LSTM always has.
        weight_drop: Fraction of the recurrent weights dropped in training (Merity et al. 2018).
        variational_dropout: Dropout on each layer's input with one mask per sequence (Gal 2016).
        zoneout: Probability that a unit keeps its cell and output, or a pair (Krueger 2017).
        initialization: ``"unit"``: the memory cell has variance 1 over random inputs, and units
            have memories of 1 to 2 H steps; ``"paper"``: all weights from U(−1/√H, 1/√H), as in
            ``torch.nn.LSTM``, as always for layers with wavelets, for the LSTM and for RKM.
        recompute_gates: Recompute the gates in the backward pass: slower, with far less memory.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    Attributes:
        weight_ih_l0: Filters ``(G·H, n·I)``, with rows ordered by gate as in ``filters()``, and
            columns by slot, that of the current step first. With a dict of filter lengths there is
            one matrix for each, such as ``weight_ih_n2_l0`` for length 2; wavelets are parameters
            of the module ``wavelets_l0``.
        weight_hh_l0: Recurrent matrices ``(R·H, H)`` of the R gates of ``recurrent()``.
        bias_l0: Biases ``(b·H,)`` of the b gates of ``biases()``.

    Shape:
        - input ``(T, B, I)``, ``(B, T, I)``, ``(T, I)`` or a ``PackedSequence``
        - output: the same with ``D·H``; state: see ``RecurrentState``; with n-gram filters
          ``WindowedRecurrentState``
    """

    cell: Cell
    static: tuple[float, float] = (1.0, 1.0)
    learn_static: bool = False
    _watch, _core_steps = warn_of_divergence, core_steps

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
        **options: Unpack[CellOptions],
    ) -> None:
        o = with_defaults(CellOptions, options)
        layout = num_layers, bias, batch_first, dropout, bidirectional, o.variational_dropout
        super().__init__(input_size, hidden_size, *layout)
        self.filter_length, self.dilation, self.stride = o.filter_length, o.dilation, o.stride
        self.layer_norm, self.forget_bias = o.layer_norm, o.forget_bias
        self.initialization = check_initialization(o.initialization)
        self.weight_drop = check_probability("weight_drop", o.weight_drop)
        self.zoneout, self.recompute_gates = zoneout_pair(o.zoneout), o.recompute_gates
        cell = replace(self.cell, candidate_bias=self.cell.candidate_bias or o.candidate_bias)
        self.cell, self.psi = _with_output(cell, o.output_nonlinearity)
        if not self.cell.has_memory and any(self.zoneout):
            hint = "It has no state to keep."
            raise ArgumentError("zoneout", self.zoneout, "0 for a cell without memory", hint=hint)
        self.bank = FilterBank.read(hidden_size, o, unit_norm=self.cell.memory == "expm1")
        self.specs = tuple(
            self.bank.of_layer(k // self.num_directions) for k in range(len(self.suffixes))
        )
        self._shown |= {
            "filters": o.filters, "free_phase": o.free_phase, "candidate_bias": o.candidate_bias,
            "output_nonlinearity": name_of(o.output_nonlinearity), "sampling_rate": o.sampling_rate,
            "zoneout": self.zoneout if any(self.zoneout) else 0.0,
        }  # fmt: skip
        reaches = tuple(bank.reach for bank in self.banks)
        self.layout = StateLayout(
            _STATES[self.cell.has_memory, any(reaches)],
            {"h": (), "c": ()} if self.cell.has_memory else {},
            hidden_size,
            reaches,
            self.features,
        )
        for k in range(len(self.suffixes)):
            self._add_direction(k, {"device": o.device, "dtype": o.dtype})
            self._reset_direction(k)

    @property
    def banks(self) -> tuple[FilterBank, ...]:
        """The filters of each direction of each layer."""
        return self.specs

    def filters(self, layer: int = 0, reverse: bool = False) -> dict[str, Tensor]:
        """Return each gate's filters ``(H, I, n)``; slot s multiplies x_{t − s·dilation}."""
        k, gates = self.index(layer, reverse), self.cell.gates
        if self.banks[k].filters == "wavelet":
            effective = self._own("wavelets", k).effective()
        else:
            effective = self.banks[k].effective(self._filters(k), len(gates))
        return dict(zip(gates, effective.detach(), strict=True))

    def wavelets(self, layer: int = 0, reverse: bool = False) -> dict[str, Wavelets]:
        """Return the wavelets of each gate; ω/2π is in Hz if the layer has a sampling rate.

        Raises:
            KindError: If the layer has no wavelet filters.
        """
        k = self.index(layer, reverse)
        if self.banks[k].filters != "wavelet":
            raise KindError("layer", repr(self), "one with filters='wavelet'")
        wavelets = self._own("wavelets", k)
        return {gate: wavelets.wavelets(g) for g, gate in enumerate(self.cell.gates)}

    def recurrent(self, layer: int = 0, reverse: bool = False) -> dict[str, Tensor]:
        """Return the recurrent matrix ``(H, H)``, output by input, of each gate that has one."""
        gates = self.cell.recurrent_gates
        weight = undropped(self, "weight_hh" + self.suffixes[self.index(layer, reverse)])
        return dict(zip(gates, weight.detach().chunk(len(gates)), strict=True)) if gates else {}

    def biases(self, layer: int = 0, reverse: bool = False) -> dict[str, Tensor]:
        """Return the effective bias ``(H,)`` of each gate that has one."""
        bias = self.full_bias(self.index(layer, reverse))
        if bias is None:
            return {}
        named = dict(zip(self.cell.gates, bias.detach(), strict=True))
        return {gate: named[gate] for gate in self.cell.biased_gates}

    def static_gates(self, layer: int = 0, reverse: bool = False) -> Tensor | None:
        """Return σ_i² and σ_f² of each unit ``(2, H)``, or None if the gates are dynamic."""
        static = self._own("static_gates", self.index(layer, reverse))
        return None if static is None else static(self._like()).detach()

    def cell_norm(self, layer: int = 0, reverse: bool = False) -> nn.LayerNorm | None:
        """Return the layer norm on the cell, or None if there is none."""
        return self._own("cell_norm", self.index(layer, reverse))

    def full_bias(self, k: int) -> Tensor | None:
        """Return the biases of all gates of a direction ``(G, H)``, 0 for those without."""
        bias, units, gates = self._own("bias", k), self.hidden_size, self.cell.gates
        if bias is None:
            return None
        missing = len(gates) * units - len(bias)
        bias = (F.pad(bias, (missing, 0)) if missing else bias).reshape(-1, units)
        if not self.forget_bias or "forget" not in gates:
            return bias
        constant = torch.zeros_like(bias)
        constant[gates.index("forget")] = self.forget_bias
        return bias + constant

    def _add_direction(self, k: int, made: dict[str, Any]) -> None:
        cell, bank, units = self.cell, self.banks[k], self.hidden_size
        gates, suffix, wavelets = len(cell.gates), self.suffixes[k], None
        if bank.filters == "wavelet":
            ((n, _),) = bank.lengths.items()
            wavelets = WaveletFilters(
                gates, self.features[k], units, n, dilation=bank.dilation, stride=bank.stride,
                free_phase=bank.free_phase, sampling_rate=bank.sampling_rate, **made,
            )  # fmt: skip
        else:
            for name, (n, own) in zip(bank.names, bank.lengths.items(), strict=True):
                self._add(name, k, gates * own, n * self.features[k], **made)
        self._add("weight_hh", k, len(cell.recurrent_gates) * units, units, **made)
        self._add("bias", k, len(cell.biased_gates) * units * self.bias, **made)
        self.add_module("wavelets" + suffix, wavelets)
        norm = nn.LayerNorm(units, **made) if self.layer_norm else None
        self.add_module("cell_norm" + suffix, norm)
        static = None
        if "static" in (cell.input_gate, cell.forget_gate):
            static = StaticGates(self.static, units, learned=self.learn_static, **made)
        self.add_module("static_gates" + suffix, static)

    def _reset_direction(self, k: int) -> None:
        """Initialize a direction; ``docs/derivations/initialization.md`` has the derivation."""
        bias, recurrent = self._own("bias", k), undropped(self, "weight_hh" + self.suffixes[k])
        for name in ("cell_norm", "static_gates"):
            module = self._own(name, k)
            if module is not None:
                module.reset_parameters()
        is_dense = self.banks[k].filters == "dense"
        if self.initialization == "unit" and is_dense and has_unit_start(self.cell):
            weights = CellWeights(self._filters(k), recurrent, bias, self.static, self.forget_bias)
            draw_cell(self.cell, self.hidden_size, weights)
            return
        bound = self.hidden_size**-0.5
        if is_dense:
            self.banks[k].reset(self._filters(k), bound)
        else:
            self._own("wavelets", k).reset_parameters()
        for parameter in (recurrent, bias):
            if parameter is not None:
                nn.init.uniform_(parameter, -bound, bound)

    def _direction(self, k: int) -> CellDirection:
        bank, units = self.banks[k], self.hidden_size
        weight, norm, static = (self._own(n, k) for n in ("weight_hh", "cell_norm", "static_gates"))
        if weight is not None:
            weight = weight.reshape(-1, units, units)
            if self.weight_drop:
                weight = F.dropout(weight, self.weight_drop, self.training)
        return CellDirection(
            self.cell, bank, self._filters(k) if bank.filters == "dense" else (),
            self._own("wavelets", k), weight, self.full_bias(k),
            None if norm is None else torch.stack((norm.weight, norm.bias)),
            None if static is None else static(self._like()),
            self.psi, self.zoneout, self.training, self.recompute_gates,
        )  # fmt: skip

    def _filters(self, k: int) -> tuple[Tensor, ...]:
        return tuple(self._own(name, k) for name in self.banks[k].names)


def name_of(function: OutputNonlinearity) -> str | None:
    """Return a short name of a nonlinearity, for ``repr``."""
    if function is None or isinstance(function, str):
        return function
    return getattr(function, "__name__", type(function).__name__)


def _with_output(
    cell: Cell, output: OutputNonlinearity
) -> tuple[Cell, Callable[[Tensor], Tensor] | None]:
    if output is None:
        return cell, None
    if isinstance(output, str):
        nonlinearity(output, "output_nonlinearity")
        return replace(cell, output=output), None
    if not callable(output):
        raise ArgumentError("output_nonlinearity", output, "a name, a callable or None")
    return cell, output
