"""The machine behind every cell of L19 Table 1: a spec, filters, and the layout of a layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor, nn

from representer.errors import ArgumentError, KindError
from representer.functional import Cell, nonlinearity
from representer.nn.recurrent.direction import CellDirection
from representer.nn.recurrent.filter_bank import FilterBank
from representer.nn.recurrent.options import (
    check_probability,
    warn_of_idle_dropout,
    zoneout_pair,
)
from representer.nn.recurrent.sequence_layer import SequenceLayer
from representer.nn.recurrent.states import (
    EmptyState,
    RecurrentState,
    StateLayout,
    WindowedRecurrentState,
    WindowState,
)
from representer.nn.recurrent.static_gates import StaticGates
from representer.nn.recurrent.wavelet_filters import WaveletFilters, Wavelets
from representer.nn.regularization.undropped import undropped

if TYPE_CHECKING:
    from representer.kernels import RecurrentKernel

OutputNonlinearity = str | Callable[[Tensor], Tensor] | None
_STATES = {  # by memory, and by n-gram filters
    (True, True): WindowedRecurrentState,
    (True, False): RecurrentState,
    (False, True): WindowState,
    (False, False): EmptyState,
}


class RecurrentKernelMachine(SequenceLayer):
    """A recurrent layer whose equations are those of a ``Cell``.

    A subclass names its ``cell`` and, where the cell's gates are static, their values.

    Args:
        input_size: I, features of one step.
        hidden_size: H, units.
        num_layers: L, layers on top of each other.
        bias: Whether the gates have biases.
        batch_first: Whether input and output are ``(B, T, …)`` instead of ``(T, B, …)``.
        dropout: Dropout between layers.
        bidirectional: Whether a second direction reads each sequence from its true end.
        filter_length: n, steps that a filter sees, or a dict ``{length: units}`` in unit order.
        dilation: Steps between the slots of a filter.
        filters: ``"dense"``, every coefficient free, or ``"wavelet"``, in the first layer
            oscillations α cos(ωt + φ) exp(−βt²) (L19 (21)); further layers, whose input is no
            signal, have dense ones of length 1.
        stride: Steps of the input between two of the first layer, which sees the window that ends
            with each; an input has a multiple of it.
        free_phase: Whether the first channel of a wavelet has a phase of its own; else it is 0.
        sampling_rate: Of a signal in Hz, so that `wavelets` speaks of seconds; None for samples.
        layer_norm: Whether the fresh cell state is layer-normalized, and so carried on.
        output_nonlinearity: Replaces the cell's: a name of ``functional.NONLINEARITIES``, or an
            elementwise callable or module, which then runs through autograd.
        forget_bias: A constant added to the forget gate's bias, where there is one.
        weight_drop: Fraction of the recurrent weights dropped in training (Merity et al. 2018).
        variational_dropout: Dropout on each layer's input with one mask a sequence (Gal 2016).
        zoneout: Probability that a unit keeps its cell and emission, or a pair (Krueger 2017).
        recompute_gates: Whether the gradient computes the gates again instead of keeping them:
            slower, with far less memory.
        device: Of the parameters.
        dtype: Of the parameters.

    Shape:
        - input ``(T, B, I)``, ``(B, T, I)``, ``(T, I)`` or a ``PackedSequence``
        - output the same with ``D·H``; state: see ``RecurrentState``; with n-gram filters
          ``WindowedRecurrentState``
    """

    cell: Cell
    static: tuple[float, float] = (1.0, 1.0)
    learn_static: bool = False
    own_options: Mapping[str, tuple[Any, Any]] = MappingProxyType({})  # value, default; for repr

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
        filter_length: int | dict[int, int] = 1,
        dilation: int = 1,
        filters: Literal["dense", "wavelet"] = "dense",
        stride: int = 1,
        free_phase: bool = False,
        sampling_rate: float | None = None,
        layer_norm: bool = False,
        output_nonlinearity: OutputNonlinearity = None,
        forget_bias: float = 0.0,
        weight_drop: float = 0.0,
        variational_dropout: float = 0.0,
        zoneout: float | tuple[float, float] = 0.0,
        recompute_gates: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            variational_dropout=variational_dropout,
        )
        self.filter_length, self.dilation, self.stride = filter_length, dilation, stride
        self.layer_norm, self.forget_bias = layer_norm, forget_bias
        self.weight_drop = check_probability("weight_drop", weight_drop)
        self.zoneout = zoneout_pair(zoneout)
        self.own_options = {
            "output_nonlinearity": (name_of(output_nonlinearity), None),
            **self.own_options,
        }
        self.cell, psi = _with_output(self.cell, output_nonlinearity)
        self._refuse_what_has_no_meaning()
        bank = FilterBank.read(
            hidden_size,
            filters,
            filter_length,
            dilation=dilation,
            stride=stride,
            unit_norm=self.cell.memory == "expm1",
            free_phase=free_phase,
            sampling_rate=sampling_rate,
        )
        self.bank = bank
        banks = [bank.of_layer(k) for k in range(num_layers) for _ in range(self.num_directions)]
        width = hidden_size * self.num_directions
        features = [input_size if not k else width for k in range(num_layers)]
        features = [f for f in features for _ in range(self.num_directions)]
        has_static = "static" in (self.cell.input_gate, self.cell.forget_gate)
        self.directions = nn.ModuleList(
            CellDirection(
                self.cell,
                own.build(len(self.cell.gates), size, device=device, dtype=dtype),
                hidden_size,
                bias=bias,
                forget_bias=forget_bias,
                layer_norm=layer_norm,
                static=StaticGates(
                    self.static,
                    hidden_size,
                    learned=self.learn_static,
                    device=device,
                    dtype=dtype,
                )
                if has_static
                else None,
                psi=psi,
                weight_drop=self.weight_drop,
                zoneout=self.zoneout,
                recompute=recompute_gates,
                device=device,
                dtype=dtype,
            )
            for own, size in zip(banks, features, strict=True)
        )
        reaches = tuple(own.reach for own in banks)
        self.layout = StateLayout(
            _STATES[self.cell.has_memory, any(reaches)],
            {"h": (), "c": ()} if self.cell.has_memory else {},
            hidden_size,
            reaches,
            tuple(features),
        )

    @property
    def kernel(self) -> RecurrentKernel:
        """The exact kernel that each unit evaluates against its reference.

        Raises:
            KindError: If there is none, with the reason; no layer with dynamic gates has one.
            MissingExtraError: If the extra ``kernels`` is not installed.
        """
        from representer.kernels.networks import kernel_of

        return kernel_of(self)

    def filters(self, layer: int = 0, reverse: bool = False) -> dict[str, Tensor]:
        """Return each gate's filters ``(H, I, n)``; slot s multiplies x_{t − s·dilation}."""
        direction = self._direction(layer, reverse)
        return dict(zip(self.cell.gates, direction.filters.effective().detach(), strict=True))

    def wavelets(self, layer: int = 0, reverse: bool = False) -> dict[str, Wavelets]:
        """Return the wavelets of each gate; ω/2π is in Hz if the layer has a sampling rate.

        Raises:
            KindError: If the layer has no wavelet filters.
        """
        filters = self._direction(layer, reverse).filters
        if not isinstance(filters, WaveletFilters):
            raise KindError("layer", repr(self), "one with filters='wavelet'")
        return {gate: filters.wavelets(k) for k, gate in enumerate(self.cell.gates)}

    def recurrent(self, layer: int = 0, reverse: bool = False) -> dict[str, Tensor]:
        """Return each gate's recurrent matrix ``(H, H)``, output by input, of those that see h."""
        weight = undropped(self._direction(layer, reverse), "recurrent")
        if weight is None:
            return {}
        return dict(zip(self.cell.recurrent_gates, weight.detach(), strict=True))

    def biases(self, layer: int = 0, reverse: bool = False) -> dict[str, Tensor]:
        """Return each gate's effective bias ``(H,)``, of those that have one."""
        bias = self._direction(layer, reverse).full_bias()
        if bias is None:
            return {}
        named = dict(zip(self.cell.gates, bias.detach(), strict=True))
        return {gate: named[gate] for gate in self.cell.biased_gates}

    def static_gates(self, layer: int = 0, reverse: bool = False) -> Tensor | None:
        """Return σ_i² and σ_f² of each unit ``(2, H)``, or None if the gates are dynamic."""
        static = self._direction(layer, reverse).static
        return None if static is None else static().detach()

    def cell_norm(self, layer: int = 0, reverse: bool = False) -> nn.LayerNorm | None:
        """Return the layer norm on the cell, or None if there is none."""
        return self._direction(layer, reverse).norm

    def extra_repr(self) -> str:
        """Return the arguments that differ from their defaults."""
        shown = {
            "num_layers": (self.num_layers, 1),
            "bias": (self.bias, True),
            "batch_first": (self.batch_first, False),
            "dropout": (self.dropout, 0.0),
            "bidirectional": (self.bidirectional, False),
            "filter_length": (self.filter_length, 1),
            "dilation": (self.dilation, 1),
            "filters": (self.bank.filters, "dense"),
            "stride": (self.stride, 1),
            "free_phase": (self.bank.free_phase, False),
            "sampling_rate": (self.bank.sampling_rate, None),
            "layer_norm": (self.layer_norm, False),
            "forget_bias": (self.forget_bias, 0.0),
            "weight_drop": (self.weight_drop, 0.0),
            "variational_dropout": (self.variational_dropout, 0.0),
            "zoneout": (self.zoneout, (0.0, 0.0)),
            **self.own_options,
        }
        options = [
            f"{name}={value!r}" for name, (value, default) in shown.items() if value != default
        ]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *options])

    def _direction(self, layer: int, reverse: bool) -> CellDirection:
        return cast(CellDirection, self.direction(layer, reverse))

    def _refuse_what_has_no_meaning(self) -> None:
        if not self.cell.has_memory and any(self.zoneout):
            raise ArgumentError(
                "zoneout",
                self.zoneout,
                "0 for a cell without memory",
                hint="It has nothing to keep.",
            )
        warn_of_idle_dropout(self.dropout, self.num_layers, stacklevel=5)


def name_of(function: OutputNonlinearity) -> str | None:
    """Return a short name of a non-linearity, for ``repr``."""
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
