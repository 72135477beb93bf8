"""The implementation of all cells of L19 Table 1."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer import functional
from representer.checks import is_number
from representer.errors import ArgumentError, KindError
from representer.functional import Cell, nonlinearity
from representer.nn.layer import HasKernel, check_probability
from representer.nn.recurrent.core_calls import CoreSteps, is_joint, layer_call, weight
from representer.nn.recurrent.filters import (
    FilterBank,
    WaveletFilters,
    Wavelets,
    extend,
    last_inputs,
)
from representer.nn.recurrent.initial import (
    CellWeights,
    check_initialization,
    draw_cell,
    has_unit_start,
)
from representer.nn.recurrent.sequence_layer import (
    CellOptions,
    OutputNonlinearity,
    SequenceLayer,
    shows,
    with_defaults,
    zero_padding,
    zoneout_pair,
)
from representer.nn.recurrent.states import (
    RecurrentState,
    StateLayout,
    WindowedRecurrentState,
    WindowState,
    cell_references,
    held_cell,
    not_linear,
)
from representer.nn.regularization import undropped
from representer.ops import core, gated_scan, rkm_scan
from representer.ops.common import can_be_read, evaluating, without_autocast
from representer.ops.held import HeldChain
from representer.ops.rkm_scan import Step, StepOperands

if TYPE_CHECKING:
    from representer.kernels import Kernel  # noqa: F401 (named in a string)


# A warning when the state of a cell that nothing bounds diverges in training.

SHORTEST = 8  # steps that are checked, so that the check costs little beside them


def warn_of_divergence(layer: RecurrentKernelMachine, x: Tensor, state: Any, /) -> None:
    """Warn if the new state of a layer is not finite though its input is.

    With feedback and without tanh, a step multiplies the state by matrices that learning can make
    too large. Only states on the CPU are checked, since others would have to be waited for.
    """
    cell = layer.cell
    is_linear = layer.psi is None and cell.output == cell.candidate == "identity"
    if not is_linear or cell.feedback != "all":
        return
    if not torch.is_grad_enabled() or not can_be_read(state.h) or x.shape[0] < SHORTEST:
        return
    if math.isfinite(float(state.h.detach().sum())) or not bool(x.isfinite().all()):
        return
    warnings.warn(
        f"The state of {layer._get_name()} is no longer finite: its steps are linear in the last "
        'output, and nothing bounds them. Use output_nonlinearity="tanh" or layer_norm=True, clip '
        "the norm of the gradient, or lower the learning rate.",
        stacklevel=2,
    )


# One direction of one layer of a cell of L19 Table 1.
#
# z_t = X~ . X_t + b,     then ``functional.rkm_scan``, or a faster equivalent     L19 (18), (19)

Scanned = tuple[Tensor, Tensor, Tensor]
WIDE = 8  # sequences for each core from which a step of the core keeps its registers full


class CellDirection(NamedTuple):
    """The current weights and options of one direction."""

    cell: Cell
    bank: FilterBank
    filters: tuple[Tensor, ...]  # of dense filters, one (G·H, n·I) for each length
    wavelets: WaveletFilters | None
    weight: Tensor | None  # recurrent matrices (R, H, H)
    bias: Tensor | None  # of all gates (G, H)
    norm: Tensor | None  # gain and bias of the layer norm on the cell (2, H)
    static: Tensor | None  # static gates (2, H)
    psi: Callable[[Tensor], Tensor] | None  # an output nonlinearity without a name
    zoneout: tuple[float, float]  # probabilities that a unit's cell and output are not updated
    training: bool
    recompute: bool  # recompute the gates in the backward pass
    input_layer: nn.Module | None  # in place of the filters
    like: Tensor  # has the dtype and the device of the recurrence

    def __call__(
        self, x: Tensor, state: tuple[Tensor, ...], window: Tensor, lengths: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:  # fmt: skip
        """Run over a sequence ``(T, B, I)``; see `SequenceLayer`.

        The state is h and c, each ``(B, H)``, or empty for a cell without memory; the window has
        the inputs before the first ``(B, (n−1)·dilation, I)``, oldest first.
        """
        extended = extend(x, window, lengths, reverse)
        new_window = last_inputs(extended, self.bank.reach, lengths, reverse)
        if lengths is not None and self.bank.stride > 1:
            lengths = lengths // self.bank.stride
        if self.bank.is_plain:  # the op computes the products
            z, input_weight = self.bank.windows(extended, reverse=reverse), self._plain_weight()
        else:
            z, input_weight = self._products(extended, reverse), None
        if not state:
            return self._at_once(z, input_weight, lengths), (), new_window
        h0, c0 = state
        hold = self.hold(*z.shape[:2])
        if hold is None and self.psi is None and self.norm is None and _is_elementwise(self.cell):
            output, h, c = self._elementwise(z, input_weight, h0, c0, lengths, reverse)
        else:
            scan = self._scan(input_weight)
            output, h, c = scan(z, h0=h0, c0=c0, hold=hold, lengths=lengths, reverse=reverse)
        return output, (h, c), new_window

    def products(self, extended: Tensor) -> Tensor:
        """Return the input part of the pre-activations ``(T / stride, B, G, H)``, read forwards."""
        if self.bank.is_plain:
            return self._biased_products(self.bank.windows(extended), self._plain_weight())
        return self._products(extended, False)

    def _plain_weight(self) -> Tensor:
        return self.filters[0].reshape(len(self.cell.gates), -1, self.filters[0].shape[1])

    def _products(self, extended: Tensor, reverse: bool) -> Tensor:
        """Return the input part of the pre-activations ``(T / stride, B, G, H)``."""
        gates = len(self.cell.gates)
        if self.wavelets is not None:
            z = self.wavelets(extended, reverse=reverse)
        elif self.input_layer is not None:
            z = self.input_layer(self.bank.windows(extended, reverse=reverse))
            z = z.unflatten(-1, (gates, -1))
        else:
            z = self.bank.product(self.filters, extended, gates, reverse=reverse)
        z = z.to(self.like.dtype)  # the recurrence keeps its precision
        return z if self.bias is None else z + self.bias

    def _scan(self, input_weight: Tensor | None) -> Callable[..., Scanned]:
        """Return the equations of the cell; a ``psi`` without a name is differentiated by autograd.

        With ``input_weight``, its input z are windows.
        """
        operands: dict[str, Any] = {
            "weight": self.weight, "cell": self.cell, "static": self.static, "norm": self.norm,
        }  # fmt: skip
        if self.psi is None:
            bias = None if input_weight is None else self.bias
            operands |= {"input_weight": input_weight, "bias": bias, "recompute": self.recompute}
            return partial(rkm_scan, **operands)

        def run(z: Tensor, **options: Any) -> Scanned:
            z = self._biased_products(z, input_weight)
            with without_autocast(z):
                return functional.rkm_scan(z, psi=self.psi, **operands, **options)

        return run

    def _at_once(self, z: Tensor, input_weight: Tensor | None, lengths: Tensor | None) -> Tensor:
        """Run a cell without memory as one step of a batch of T·B.

        The core, whose own memory grows with the batch, takes the steps one after another.
        """
        time, batch = z.shape[:2]
        units = z.shape[-1] if input_weight is None else input_weight.shape[1]
        like = z if input_weight is None else input_weight
        is_eager = not torch.compiler.is_compiling()  # else the graph would depend on the machine
        is_on_core = is_eager and z.device.type == "cpu" and not core.MISSING
        if is_on_core and batch >= WIDE * core.MOST_THREADS:
            zeros = like.new_zeros(batch, units)
            return self._scan(input_weight)(z, h0=zeros, c0=zeros, lengths=lengths)[0]
        zeros = like.new_zeros(time * batch, units)
        # a flattened number of strides makes torch.export refuse batches of one if it comes first
        first = self.bank.stride > 1
        z = z.transpose(0, 1) if first else z
        output, _, _ = self._scan(input_weight)(z.flatten(0, 1)[None], h0=zeros, c0=zeros)
        output = output[0].unflatten(0, z.shape[:2])
        output = output.transpose(0, 1).contiguous() if first else output
        return output if lengths is None else zero_padding(output, lengths)

    def _elementwise(
        self, z: Tensor, input_weight: Tensor | None, h0: Tensor, c0: Tensor,
        lengths: Tensor | None, reverse: bool,
    ) -> Scanned:  # fmt: skip
        """Run a linear cell without feedback as an elementwise recurrence."""
        assert self.static is not None
        u = self.static[0] * self._biased_products(z, input_weight)[:, :, 0]
        f = self.static[1]
        if self.cell.memory == "output":  # h_t = (u_t + f h_{t-1}) / 2
            output, h = gated_scan(u / 2, f / 2, h0, lengths=lengths, reverse=reverse)
            return output, h, 2 * h
        cells, c = gated_scan(u, f, c0, lengths=lengths, reverse=reverse)
        emit = functional.nonlinearity(self.cell.output).value
        output = emit(cells)
        return output if lengths is None else zero_padding(output, lengths), emit(c), c

    def _biased_products(self, z: Tensor, input_weight: Tensor | None) -> Tensor:
        """Return the pre-activations; with ``input_weight``, z are windows."""
        if input_weight is None:
            return z
        bias = None if self.bias is None else self.bias.flatten()
        products = F.linear(z, input_weight.flatten(0, 1), bias).to(input_weight.dtype)
        return products.unflatten(-1, input_weight.shape[:2])

    def operands(self, lengths: Tensor | None) -> StepOperands:
        """Return the operands of a call without operators, but for what zoneout holds."""
        bias, weight = (None if x is None else x.flatten(0, 1) for x in (self.bias, self.weight))
        static, norm = self.static, self.norm
        return StepOperands(self.filters[0], bias, weight, static, norm, lengths=lengths)

    def hold(self, time: int, batch: int) -> Tensor | None:
        """Return what zoneout keeps of cells and outputs ``(2, T, B, H)``; None without."""
        if not any(self.zoneout):
            return None
        holds = self.like.new_tensor(self.zoneout)[:, None, None, None]
        holds = holds.expand(2, time, batch, sum(self.bank.lengths.values()))
        return torch.bernoulli(holds) if self.training else holds


def _is_elementwise(cell: Cell) -> bool:
    is_static = cell.input_gate == cell.forget_gate == "static" and cell.feedback == "none"
    carries_itself = cell.memory == "cell" or (cell.memory == "output" and cell.output == "linear")
    return is_static and carries_itself and not cell.output_gate


# Static gates: constant σ_i² of the input and σ_f² of the memory (L19 (9)).


class StaticGates(nn.Module):
    """One σ_i² and one σ_f² per unit, fixed or learned in (0, 1).

    Fixed gates are no buffer: one that is not in the state dict stays empty where other libraries
    make a model on the meta device and load its weights.

    Args:
        values: The pair (σ_i², σ_f²); the initial values if they are learned.
        hidden_size: H.
        learned: Learn the gates, as sigmoids of parameters.
    """

    def __init__(
        self, values: tuple[float, float], hidden_size: int, *, learned: bool = False,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        are_numbers = isinstance(values, (tuple, list)) and all(
            is_number(v) and math.isfinite(v) for v in values
        )
        if not are_numbers or len(values) != 2 or min(values) < 0:
            raise ArgumentError("static_gates", values, "two finite, non-negative numbers")
        if learned and any(not 0 < v < 1 for v in values):
            raise ArgumentError(
                "static_gates", values, "two numbers in (0, 1), since they are learned"
            )
        self.start, self.hidden_size = tuple(values), hidden_size
        self.input_logit = self.forget_logit = None
        if learned:
            self.input_logit = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
            self.forget_logit = nn.Parameter(torch.empty(hidden_size, device=device, dtype=dtype))

    @property
    def is_learned(self) -> bool:
        """True if the gates are parameters."""
        return self.input_logit is not None

    def reset_parameters(self) -> None:
        """Set learned gates to their initial values."""
        for logit, value in zip((self.input_logit, self.forget_logit), self.start, strict=True):
            if logit is not None:
                nn.init.constant_(logit, math.log(value / (1 - value)))

    def forward(self, like: Tensor) -> Tensor:
        """Return σ_i² and σ_f² ``(2, H)``; fixed ones with the dtype and device of a tensor."""
        if self.input_logit is None or self.forget_logit is None:
            return torch.stack([like.new_full((self.hidden_size,), value) for value in self.start])
        logits = torch.stack((self.input_logit.expand(self.hidden_size), self.forget_logit))
        return torch.sigmoid(logits)


# The steps of a kernel machine on the compiled core, see ``machine_core_steps``.


def machine_core_steps(layer: RecurrentKernelMachine, x_t: Tensor) -> CoreSteps | None:
    """Return the step of the core for each direction, or None if it has none for the options."""
    if layer.psi is not None or any(layer.zoneout) or (layer.weight_drop and layer.training):
        return None
    step = _STEPS.get(layer)
    if step is None or step.cell is not layer.cell:
        step = _STEPS[layer] = Step(layer.cell, layer.hidden_size)
    if not step.is_known or x_t.shape[-1] != layer.features[0]:
        return None
    steps = []
    for k, features in enumerate(layer.features):
        operands = _step_operands(layer, k)
        if operands is None or not step.fits(features, x_t, operands):
            return None
        steps.append((step, operands))
    return tuple(steps)


_STEPS: WeakKeyDictionary[RecurrentKernelMachine, Step] = WeakKeyDictionary()


def _step_operands(layer: RecurrentKernelMachine, k: int) -> StepOperands | None:
    """Return the current weights of a layer, or None if its filters are not a single matrix."""
    bank, suffix = layer.banks[k], layer.suffixes[k]
    if not bank.is_plain or bank.reach:
        return None
    bias = weight(layer, "bias" + suffix)
    if layer.forget_bias and bias is not None:
        full = layer.full_bias(k)
        bias = None if full is None else full.flatten()
    modules: dict[str, Any] = layer._modules
    norm, static = modules["cell_norm" + suffix], modules["static_gates" + suffix]
    input_weight = weight(layer, "weight_ih" + suffix)
    return StepOperands(
        input_weight, bias, weight(layer, "weight_hh" + suffix),
        None if static is None else _gates(static, input_weight),
        None if norm is None else torch.stack((norm.weight, norm.bias)),
    )  # fmt: skip


def _gates(static: StaticGates, like: Tensor) -> Tensor:
    if static.is_learned or not like.is_cpu:
        return static(like)
    return _fixed(static.start, static.hidden_size, like.dtype)


@lru_cache(maxsize=64)
def _fixed(start: tuple[float, float], units: int, dtype: torch.dtype) -> Tensor:
    """Return fixed gates on the CPU; making them takes as long as a third of a step."""
    return torch.tensor(start, dtype=dtype)[:, None].repeat(1, units)


# The base class of all cells of L19 Table 1.

_STATES = {  # by memory, and by n-gram filters
    (True, True): WindowedRecurrentState,
    (True, False): RecurrentState,
    (False, True): WindowState,
    (False, False): WindowState,
}


class RecurrentKernelMachine(HasKernel["Kernel"], SequenceLayer):
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
        input_layer: Makes a layer in place of the filters from the features of a window and G·H,
            such as ``nn.KernelLinear``, with a learned function on every edge.
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

    Raises:
        ArgumentError: If a size or an option is out of its range, or two do not go together.
        ShapeError: If an input or a state has another shape.

    Examples:
        >>> import torch
        >>> from representer import nn
        >>> layer = nn.RKMLSTM(input_size=3, hidden_size=16)
        >>> output, state = layer(torch.randn(20, 8, 3))  # 20 steps, a batch of 8
        >>> output.shape
        torch.Size([20, 8, 16])
    """

    cell: Cell
    static: tuple[float, float] = (1.0, 1.0)
    learn_static: bool = False
    unit_norm: bool = True
    _watch, core_steps = warn_of_divergence, machine_core_steps

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)  # for `help`: all arguments and shapes
        sections = (RecurrentKernelMachine.__doc__ or "").partition("    Args:\n")[2]
        sections = sections.replace("nn.RKMLSTM", f"nn.{cls.__name__}")
        cls.__doc__ = f"{cls.__doc__}\n    Args of every such layer:\n{sections}"

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
        is_gaussian = self.cell.memory == "expm1"
        self.input_layer = o.input_layer
        self.bank = FilterBank.read(hidden_size, o, distance=is_gaussian, unit_norm=self.unit_norm)
        self.specs = tuple(
            self.bank.of_layer(k // self.num_directions) for k in range(len(self.suffixes))
        )
        self._shown |= {
            "filters": o.filters, "free_phase": o.free_phase, "candidate_bias": o.candidate_bias,
            "output_nonlinearity": name_of(o.output_nonlinearity), "sampling_rate": o.sampling_rate,
            "zoneout": self.zoneout if any(self.zoneout) else 0.0, "input_layer": o.input_layer,
        }  # fmt: skip
        reaches = tuple(bank.reach for bank in self.banks)
        self.layout = StateLayout(
            _STATES[self.cell.has_memory, any(reaches)],
            {"h": (), "c": ()} if self.cell.has_memory else {}, hidden_size, reaches, self.features,
        )  # fmt: skip
        for k in range(len(self.suffixes)):
            self._add_direction(k, {"device": o.device, "dtype": o.dtype})
            self._reset_direction(k)

    @property
    def runs_on_core(self) -> bool:
        """False if whole sequences are computed in another way than by the core's steps."""
        is_elementwise = _is_elementwise(self.cell) and not self.layer_norm
        return not (self.recompute_gates or is_elementwise)

    @property
    def banks(self) -> tuple[FilterBank, ...]:
        """The filters of each direction of each layer."""
        return self.specs

    def filters(self, layer: int = 0, reverse: bool = False) -> dict[str, Tensor]:
        """Return each gate's filters ``(H, I, n)``; slot s multiplies x_{t − s·dilation}."""
        k, gates = self.index(layer, reverse), self.cell.gates
        if self.banks[k].filters == "layer":
            raise KindError("layer", repr(self), "one without input_layer, which has no filters")
        if self.banks[k].filters == "wavelet":
            effective = self._own("wavelets", k).effective()
        else:
            effective = self.banks[k].effective(self._filters(k), len(gates))
        return dict(zip(gates, effective.detach(), strict=True))

    def references(self, layer: int = 0, reverse: bool = False) -> Tensor:
        """Return the reference of each unit ``(H, n, I)``: its filter, oldest slot first."""
        return self.filters(layer, reverse)["candidate"].transpose(1, 2).flip(1)

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
        return None if static is None else static(self.any_parameter()).detach()

    def cell_norm(self, layer: int = 0, reverse: bool = False) -> nn.LayerNorm | None:
        """Return the layer norm on the cell, or None if there is none."""
        return self._own("cell_norm", self.index(layer, reverse))

    def held_chain(self, x: Tensor, lengths: Tensor) -> HeldChain:
        """Return the held gates of the first layer for padded sequences ``(T, B, I)``."""
        with evaluating(self):
            return held_cell(self._direction(0), x, lengths)

    def unit_references(self) -> tuple[Tensor]:
        """Return the references of the first layer ``(1, H, F)``, with gradients.

        Each is the filter, newest slot first, the row of the recurrent matrix if the candidate
        sees h, and the bias if the candidate has one.
        """
        with evaluating(self):
            return (cell_references(self._direction(0)),)

    def not_linear(self) -> str:
        return super().not_linear() or not_linear(self)

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
        gates, suffix, wavelets, edges = len(cell.gates), self.suffixes[k], None, None
        if bank.filters == "wavelet":
            wavelets = WaveletFilters(
                gates, self.features[k], units, max(bank.lengths), dilation=bank.dilation,
                stride=bank.stride, free_phase=bank.free_phase, sampling_rate=bank.sampling_rate,
                **made,
            )  # fmt: skip
        elif self.input_layer is not None:
            edges = self.input_layer(max(bank.lengths) * self.features[k], gates * units)
            edges = edges.to(made["device"], made["dtype"])
        for name, (n, length) in zip(bank.names, bank.lengths.items(), strict=bool(bank.names)):
            self._add(name, k, gates * length, n * self.features[k], **made)
        self._add("weight_hh", k, len(cell.recurrent_gates) * units, units, **made)
        self._add("bias", k, len(cell.biased_gates) * units * self.bias, **made)
        self.add_module("wavelets" + suffix, wavelets)
        self.add_module("input_layer" + suffix, edges)
        norm = nn.LayerNorm(units, **made) if self.layer_norm else None
        self.add_module("cell_norm" + suffix, norm)
        static = None
        if "static" in (cell.input_gate, cell.forget_gate):
            static = StaticGates(self.static, units, learned=self.learn_static, **made)
        self.add_module("static_gates" + suffix, static)

    def _reset_direction(self, k: int) -> None:
        """Initialize a direction; ``docs/derivations/initialization.md`` has the derivation."""
        bias, recurrent = self._own("bias", k), undropped(self, "weight_hh" + self.suffixes[k])
        for name in ("cell_norm", "static_gates", "wavelets", "input_layer"):
            module = self._own(name, k)
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
        is_dense = self.banks[k].filters == "dense"
        if self.initialization == "unit" and is_dense and has_unit_start(self.cell):
            weights = CellWeights(self._filters(k), recurrent, bias, self.static, self.forget_bias)
            draw_cell(self.cell, self.hidden_size, weights)
            return
        bound = self.hidden_size**-0.5
        if is_dense:
            self.banks[k].reset(self._filters(k), bound)
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
            self.cell, bank, self._filters(k), self._own("wavelets", k), weight, self.full_bias(k),
            None if norm is None else torch.stack((norm.weight, norm.bias)),
            None if static is None else static(self.any_parameter()),
            self.psi, self.zoneout, self.training, self.recompute_gates,
            self._own("input_layer", k), self.any_parameter(),
        )  # fmt: skip

    def _together(
        self, runs: list[CellDirection], x: Tensor, state: tuple[Tensor, ...],
        lengths: Tensor | None, /,
    ) -> tuple[Tensor, ...] | None:  # fmt: skip
        bank, step = runs[0].bank, Step(self.cell, self.hidden_size)
        is_usual = bank.is_plain and not bank.reach and self.stride == 1 and step.is_known
        if not is_usual or not state or self.psi is not None or not self.runs_on_core:
            return None
        steps = tuple((step, run.operands(lengths)) for run in runs)
        if not is_joint(steps, x, *state):
            return None
        holds = [run.hold(*x.shape[:2]) for run in runs]
        pairs = zip(steps, holds, strict=True)
        return layer_call(
            tuple((s, of._replace(hold=hold)) for (s, of), hold in pairs), x, state[0], state[1]
        )

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
