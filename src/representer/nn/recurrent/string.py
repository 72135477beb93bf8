"""The network of the string kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer import functional
from representer.checks import check_integer, check_integers, is_number
from representer.errors import ArgumentError
from representer.functional import nonlinearity, string_states
from representer.functional.strings import Combine, Normalized, Readout, StringChain
from representer.nn.layer import HasKernel, check_flag, check_probability
from representer.nn.recurrent.core_calls import CoreSteps, weight
from representer.nn.recurrent.initial import (
    Initialization,
    StringWeights,
    check_initialization,
    draw_chain,
)
from representer.nn.recurrent.machine import name_of
from representer.nn.recurrent.sequence_layer import SequenceLayer, check_input
from representer.nn.recurrent.states import StateLayout, StringMassState, StringState, held_string
from representer.nn.regularization import undropped
from representer.ops import string_scan
from representer.ops.common import evaluating, without_autocast
from representer.ops.held import HeldChain, before, chain_states
from representer.ops.string_scan import Step, StepOperands

if TYPE_CHECKING:
    from representer.kernels import Kernel  # noqa: F401 (named in a string)


# One direction of one string-kernel layer.
#
# p_j[t] = W^(j) x_t and the gates' products, then ``functional.string_scan``       L17 (4), §4,
# §6.1

Scanned = tuple[Tensor, Tensor, Tensor]


class StringDirection(NamedTuple):
    """The current weights and options of one direction."""

    chain: StringChain
    input_weight: Tensor  # references by token, then gates, as in chain.products (P, H, I)
    bias: Tensor | None  # of the gates (G, H)
    decay: Tensor | None  # λ () if it is constant or (H,) if learned; None for a gate
    weight: Tensor | None  # the decay gate's matrix on h_{t−1} (H, H)
    hidden_dropout: float  # fraction of the hidden state dropped from the gates' input
    alpha: Tensor | None = None  # weights of the readout (n, H)
    psi: Callable[[Tensor], Tensor] | None = None  # an activation without a name

    def __call__(
        self, x: Tensor, state: tuple[Tensor, ...], window: Tensor, lengths: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:  # fmt: skip
        """Run over a sequence ``(T, B, I)``; see `SequenceLayer`.

        The state is h ``(B, H)``, c and, if the cell has them, the masses, ``(n, B, H)``, with
        zeros after the order of this layer if another layer has a larger one.
        """
        h0, *parts = state
        mask = None
        if self.hidden_dropout:  # one mask for all steps of a sequence
            mask = F.dropout(torch.ones_like(h0), self.hidden_dropout)
        n = self.chain.order
        c0 = torch.cat([state[:n] for state in parts]).transpose(0, 1)
        output, h, c = self._scan(x, h0, c0, mask=mask, lengths=lengths, reverse=reverse)
        c_new = [F.pad(state, (0, 0, 0, 0, 0, len(parts[0]) - n)) for state in
                 c.transpose(0, 1).split(n)]  # fmt: skip
        return output, (h, *(state.contiguous() for state in c_new)), window

    def cell_states(self, x: Tensor, reverse: bool) -> Tensor:
        """Return r_1 … r_n of every step ``(T, B, n, H)``, from zeros and without dropout."""
        chain, x = self.chain, x.flip(0) if reverse else x
        z = self.products(x)
        lam = self.decays(x, z)
        w = 1 - lam if chain.normalized == "paper" else torch.ones_like(lam)
        tokens = z[:, :, : chain.order]
        states, masses = chain_states(tokens, lam, w, chain.combine, chain.has_mass)
        read = string_states(chain, torch.stack((*states, *masses), dim=2))
        return read.flip(0) if reverse else read

    def decays(self, x: Tensor, z: Tensor) -> Tensor:
        """Return λ of every step ``(T, B, H)``, or the given λ."""
        if self.decay is not None:
            return self.decay
        a = z[:, :, self.chain.order]
        if self.weight is not None:
            zeros = z.new_zeros(x.shape[1], self.chain.states, z.shape[3])
            h, _, _ = self._scan(x, zeros[:, 0], zeros)
            with without_autocast(h):
                a = a + before(h) @ self.weight.T
        return torch.sigmoid(a)

    def _scan(self, x: Tensor, h0: Tensor, c0: Tensor, **options: Any) -> Scanned:
        options |= {"decay": self.decay, "weight": self.weight}
        if self.psi is not None or (self.alpha is not None and self.chain.combine != "multiply"):
            z, carry = self.products(x), x if self.chain.highway else None
            options |= {"alpha": self.alpha, "psi": self.psi, "carry": carry}
            with without_autocast(z):
                return functional.string_scan(z, h0, c0, chain=self.chain, **options)
        options |= {"bias": self.bias}
        if self.alpha is None:
            weight = self.input_weight
            return string_scan(x, h0, c0, chain=self.chain, input_weight=weight, **options)
        # token j scaled by α_j / α_{j−1} makes c_j the term α_j c_j of a plain sum
        chain, tokens = replace(self.chain, readout="sum"), self.input_weight[: self.chain.order]
        ratio = torch.cat((self.alpha[:1], self.alpha[1:] / self.alpha[:-1]))
        weight = torch.cat((tokens * ratio[..., None], self.input_weight[chain.order :]))
        factor = F.pad(self.alpha, (0, 0, 0, chain.states - chain.order), value=1.0)
        scaled = {"chain": chain, "input_weight": weight, **options}
        output, h, c = string_scan(x, h0, factor * c0, **scaled)
        return output, h, c / factor

    def products(self, x: Tensor) -> Tensor:
        """Return W x_t of every token and gate, with the gates' biases ``(T, B, P, H)``."""
        weight, bias = self.input_weight, self.bias
        if bias is not None:
            bias = F.pad(bias, (0, 0, self.chain.order, 0)).flatten()
        # autocast may reduce the precision of products, but not of the recurrence
        return (
            F.linear(x, weight.flatten(0, 1), bias).to(weight.dtype).unflatten(-1, weight.shape[:2])
        )


# Checks of the options of a string-kernel layer.

DecayOption = float | Literal["learned", "input", "state"]
NormalizedOption = bool | Literal["exact"]
ActivationOption = str | Callable[[Tensor], Tensor] | None
SMALLEST = 1e-12  # weight of a readout, which is divided by


def check_decay(decay: Any) -> DecayOption:
    """Return the decay if it is valid."""
    if is_number(decay) and 0 <= decay <= 1:
        return float(decay)
    if isinstance(decay, str) and decay in ("learned", "input", "state"):
        return decay
    hint = (
        "Outside of [0, 1], weights of n-grams would grow or change sign."
        if is_number(decay)
        else ""
    )
    raise ArgumentError(
        "decay", decay, "a number in [0, 1], 'learned', 'input' or 'state'", hint=hint
    )


def string_chain(
    *, order: int, decay: DecayOption, combine: Combine, normalized: NormalizedOption,
    readout: Readout, activation: ActivationOption, highway: bool,
) -> StringChain:  # fmt: skip
    """Return the chain of a layer from its options."""
    highway = check_flag("highway", highway)
    _check_choice("combine", combine, get_args(Combine))
    _check_choice("normalized", normalized, (False, True, "exact"))
    _check_choice("readout", readout, get_args(Readout))
    if activation is not None and not callable(activation):
        nonlinearity(activation, "activation")
    if normalized is True and decay == 1:
        hint = 'Each new term has the factor 1 − λ = 0. Use normalized="exact" for an average.'
        raise ArgumentError("decay", decay, "a number below 1 with normalized=True", hint=hint)
    norms: dict[NormalizedOption, Normalized] = {False: "no", True: "paper", "exact": "exact"}
    return StringChain(
        check_integer("order", order), combine, norms[normalized], readout,
        "gate" if decay == "input" else "state_gate" if decay == "state" else "given", highway,
        activation if isinstance(activation, str) else "identity",
    )  # fmt: skip


def _check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        *first, last = map(repr, choices)
        raise ArgumentError(name, value, f"{', '.join(first)} or {last}")


# The steps of a string-kernel layer on the compiled core, see ``string_core_steps``.


def string_core_steps(layer: StringKernelRNN, x_t: Tensor) -> CoreSteps | None:
    """Return the step of the core for each layer, or None if it has none for the options."""
    is_plain = layer.readout != "weighted" and not callable(layer.activation)
    if (layer.hidden_dropout and layer.training) or not is_plain or isinstance(layer.order, tuple):
        return None
    steps, features = [], x_t.shape[-1]
    for k in range(layer.num_layers):
        operands, step = _step_operands(layer, k), _step(layer, k)
        if not step.fits(features, x_t, operands):
            return None
        steps.append((step, operands))
        features = layer.hidden_size
    return tuple(steps)


_STEPS: WeakKeyDictionary[StringKernelRNN, dict[int, Step]] = WeakKeyDictionary()


def _step(layer: StringKernelRNN, k: int) -> Step:
    steps = _STEPS.setdefault(layer, {})
    if k not in steps or steps[k].chain is not layer.chains[k]:
        steps[k] = Step(layer.chains[k], layer.hidden_size, layer.decay == "learned")
    return steps[k]


def _step_operands(layer: StringKernelRNN, k: int) -> StepOperands:
    """Return the current weights."""
    suffix, decay = layer.suffixes[k], layer.decay
    input_weight, logit = weight(layer, "weight_ih" + suffix), weight(layer, "decay_logit" + suffix)
    if logit is not None:
        value = torch.sigmoid(logit)
    else:
        value = None if isinstance(decay, str) else input_weight.new_full((), decay)
    bias, recurrent = weight(layer, "bias" + suffix), weight(layer, "weight_hh" + suffix)
    return StepOperands(input_weight, bias, value, recurrent)


# The string-kernel network, L17 (4), Tables 4 and 5, sections 4 and 6.1.


class StringKernelRNN(HasKernel["Kernel"], SequenceLayer):
    r"""The network of the string kernel: unit i compares a sequence with reference sequence i.

    .. math::
        c_j[t] = \lambda \, c_j[t-1] + c_{j-1}[t-1] \odot W^{(j)} x_t, \qquad
        h_t = \sigma(c_n[t])

    with :math:`c_0 = 1` and :math:`c_j[0] = 0`. The reference of unit i is the i-th rows of
    :math:`W^{(1)} \dots W^{(n)}`, and :math:`c_n[t][i]` is the string kernel of order n between
    :math:`x_1 \dots x_t` and that reference (Theorem 1): the sum over all gapped n-grams
    :math:`i_1 < \dots < i_n` of :math:`\prod_j \langle x_{i_j}, w_j \rangle`, weighted by
    :math:`\lambda^{t - i_1 - n + 1}`. With ``decay="input"`` or ``"state"``, λ is a gate

    .. math::
        \lambda_t = \sigma(U [x_t, h_{t-1}] + b)

    without h for ``"input"``; the weight of an n-gram is then the product of the gates at the
    steps after i₁ that it skips (section 4). With ``highway`` (section 6.1),

    .. math::
        h_t = g_t \odot \sigma(c_n[t]) + (1 - g_t) \odot x_t, \qquad g_t = \sigma(U' x_t + b')

    Args:
        input_size: I, features of one step.
        hidden_size: H, units.
        num_layers: L, stacked layers.
        bias: Add biases to the gates; the products with references have none.
        batch_first: Input and output are ``(B, T, …)`` instead of ``(T, B, …)``.
        dropout: Dropout between layers.
        bidirectional: Add a reverse direction, from the true end of each sequence.
        order: n, tokens of an n-gram and of a reference; or a list with the n of each layer.
        decay: λ: a number in [0, 1]; ``"learned"``, one number in (0, 1) per unit; ``"input"``, a
            gate on x_t; ``"state"``, a gate on x_t and h_{t−1}, which as a replacement of
            ``torch.nn.LSTM`` learns the most problems.
        combine: Operation that extends an n-gram by a token: ``"multiply"``; ``"add"``, Table 4 as
            printed, :math:`c_{j-1}[t-1] + W^{(j)} x_t` with :math:`c_0 = 0`; ``"add_exact"``, where
            the new token is weighted by the mass :math:`m_{j-1}[t-1]`, which gives Table 5's kernel
            for every t.
        normalized: True for Table 4 as printed, with a factor 1 − λ of each new term; ``"exact"``
            divides by the mass :math:`m_j[t] = \lambda m_j[t-1] + m_{j-1}[t-1]`, which gives Table
            5's kernel for every t (0 for t < j).
        readout: ``"last"``, c_n; ``"sum"``, c_1 + … + c_n; or ``"weighted"``, Σ α_j c_j with
            learned α_j ≥ 0, see `readout_weights`; before the activation.
        activation: σ: a name of ``functional.NONLINEARITIES``, or an elementwise callable or
            module, which is differentiated by autograd; None for none.
        highway: Mix the input with the output in layers with H input features.
        variational_dropout: Dropout on each layer's input, including that of the highway, with one
            mask per sequence.
        hidden_dropout: Dropout with one mask per sequence on h_{t−1} in the decay gate, and on
            σ(c_n[t]) in the highway.
        initialization: ``"unit"``: the states c_j have variance 1 over random inputs, and
            decays that are not given are spread over the units, for memories of 1 to 2 H steps.
            ``"paper"``: weights from U(−√(3/fan_in), √(3/fan_in)), decays of 1/2 and biases of 0,
            as in the authors' code.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    Attributes:
        weight_ih_l0: References and gates ``(P·H, I)``: the first tokens of all units, the second
            tokens, …, then the decay gate and the highway gate, if any.
        weight_hh_l0: The decay gate's matrix on h_{t−1} ``(H, H)``, with ``decay="state"``.
        bias_l0: Biases ``(G·H,)`` of the G gates.
        decay_logit_l0: σ^{−1} of a learned decay ``(H,)``.
        readout_l0: The inverse softplus of the weights of a weighted readout ``(n, H)``.

    Shape:
        - input ``(T, B, I)``, ``(B, T, I)``, ``(T, I)`` or a ``PackedSequence``
        - output: the same with ``D·H``
        - state: see ``StringState``; with masses (``"add_exact"``, ``"exact"``)
          ``StringMassState``; n is the largest order of the layers

    Raises:
        ArgumentError: If an option has an invalid value, or no effect in this layer.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (4), Theorem 1, sections 4 and 6.1, Tables 4 and 5.
    """

    core_steps = string_core_steps

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
        order: int | Sequence[int] = 2,
        decay: DecayOption = "state",
        combine: Combine = "multiply",
        normalized: NormalizedOption = False,
        readout: Readout = "last",
        activation: ActivationOption = "tanh",
        highway: bool = False,
        variational_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        initialization: Initialization = "unit",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        layout = num_layers, bias, batch_first, dropout, bidirectional, variational_dropout
        super().__init__(input_size, hidden_size, *layout)
        self.decay, self.normalized, self.activation = check_decay(decay), normalized, activation
        self.initialization: Initialization = check_initialization(initialization)
        if isinstance(order, Sequence) and not isinstance(order, str):
            check_integers("order", order)
            orders = [*order]
        else:
            orders = [check_integer("order", order)] * self.num_layers
        if len(orders) != self.num_layers:
            raise ArgumentError("order", order, f"one for each of the {self.num_layers} layers")
        self.readout = readout
        self.chain = string_chain(
            order=orders[0], decay=self.decay, combine=combine, normalized=normalized,
            readout=readout, activation=activation, highway=highway,
        )  # fmt: skip
        self._shown |= {"combine": combine, "highway": highway, "activation": name_of(activation)}
        self.hidden_dropout = check_probability("hidden_dropout", hidden_dropout)
        self._check_options_have_effect()
        has_mass = self.chain.has_mass
        self.layout = StateLayout(
            StringMassState if has_mass else StringState,
            {"h": ()} | dict.fromkeys(("c", "m")[: 1 + has_mass], (max(orders),)), hidden_size,
            (0,) * len(self.features), self.features,
        )  # fmt: skip
        self.specs = tuple(
            replace(self.chain, order=n, highway=highway and size == hidden_size)
            for n, size in zip(
                (n for n in orders for _ in range(self.num_directions)), self.features, strict=True
            )
        )
        for k, chain in enumerate(self.chains):
            made = {"device": device, "dtype": dtype}
            products, gates = len(chain.products), len(chain.products) - chain.order
            self._add("weight_ih", k, products * hidden_size, self.features[k], **made)
            self._add("weight_hh", k, hidden_size * chain.is_state_gated, hidden_size, **made)
            self._add("bias", k, hidden_size * gates * bias, **made)
            self._add("decay_logit", k, hidden_size * (decay == "learned"), **made)
            self._add("readout", k, chain.order * (readout == "weighted"), hidden_size, **made)
            self._reset_direction(k)

    @property
    def chains(self) -> tuple[StringChain, ...]:
        """The cell of each direction of each layer."""
        return self.specs

    @property
    def order(self) -> int | tuple[int, ...]:
        """n, tokens of an n-gram and of a reference, or that of each layer if they differ."""
        orders = tuple(chain.order for chain in self.chains[:: self.num_directions])
        return orders if len({*orders}) > 1 else orders[0]

    def references(self, layer: int = 0, reverse: bool = False) -> Tensor:
        """Return the reference of each unit ``(H, n, I)``, a view of the weights.

        Modifying it in place changes the layer.
        """
        k = self.index(layer, reverse)
        return self._products(k).detach()[: self.chains[k].order].transpose(0, 1)

    def readout_weights(self, layer: int = 0, reverse: bool = False) -> Tensor:
        """Return α of a readout of all states ``(n, H)``: ones for ``"sum"``.

        Raises:
            ArgumentError: If only the last state is read.
        """
        if self.readout == "last":
            raise ArgumentError("readout", "last", "'sum' or 'weighted'")
        direction = self.plain_direction(self.index(layer, reverse))
        ones = torch.ones_like(direction.input_weight[: direction.chain.order, :, 0])
        return ones if direction.alpha is None else direction.alpha.detach()

    def cell_states(self, input: Tensor, reverse: bool = False) -> Tensor:
        """Return c_1 … c_n of the first layer at every step, before readout and activation.

        With ``normalized="exact"`` they are divided by their masses. Dropout is not applied.

        Args:
            input: ``(T, B, I)``; ``(B, T, I)`` with ``batch_first``; ``(T, I)``.
            reverse: Use the reverse direction of a bidirectional layer.

        Returns:
            ``(T, B, n, H)``, ``(B, T, n, H)`` or ``(T, n, H)``.

        Raises:
            ShapeError: If the shape is wrong.
            KindError: If the input is not a tensor, or has the wrong dtype or device.
        """
        direction = self.plain_direction(self.index(0, reverse))
        is_batched = check_input(
            input, self.input_size, self.batch_first, like=direction.input_weight
        )
        x = input if is_batched else input[:, None]
        swaps = self.batch_first and is_batched
        states = direction.cell_states(x.transpose(0, 1) if swaps else x, reverse)
        if not is_batched:
            return states[:, 0]
        return states.transpose(0, 1) if swaps else states

    def decay_gate(self, layer: int = 0, reverse: bool = False) -> Tensor | dict[str, Tensor]:
        """Return λ, ``()`` if it is constant, ``(H,)`` if learned; or the weights of its gate.

        The weights are a dict of ``"input"`` ``(H, I)``, ``"state"`` ``(H, H)`` if the gate depends
        on h, and ``"bias"`` ``(H,)`` if it has one.
        """
        direction = self.plain_direction(self.index(layer, reverse))
        if direction.decay is not None:
            return direction.decay.detach()
        weights = {"input": direction.input_weight.detach()[direction.chain.order]}
        if direction.weight is not None:
            weights["state"] = direction.weight.detach()
        if direction.bias is not None:
            weights["bias"] = direction.bias.detach()[0]
        return weights

    def highway_gate(self, layer: int = 0, reverse: bool = False) -> dict[str, Tensor]:
        """Return the highway gate's ``"input"`` ``(H, I)`` and, if it has one, ``"bias"`` ``(H,)``.

        The dict is empty for a layer without a highway.
        """
        direction = self.plain_direction(self.index(layer, reverse))
        if not direction.chain.highway:
            return {}
        weights = {"input": direction.input_weight.detach()[-1]}
        bias = direction.bias
        return weights if bias is None else weights | {"bias": bias.detach()[-1]}

    def held_chain(self, x: Tensor, lengths: Tensor) -> HeldChain:
        """Return the held gates of the first layer for padded sequences ``(T, B, I)``."""
        with evaluating(self):
            return held_string(self.plain_direction(0), x, lengths)

    def unit_references(self) -> tuple[Tensor]:
        """Return the references of the first layer ``(n, H, I)``, with gradients."""
        return (self._products(0)[: self.chains[0].order],)

    def plain_direction(self, k: int) -> StringDirection:
        """Return a direction in evaluation mode, whatever the mode of the layer."""
        return self._read(k, undropped(self, "weight_hh" + self.suffixes[k]), 0.0)

    def _direction(self, k: int) -> StringDirection:
        hidden_dropout = self.hidden_dropout if self.training else 0.0
        return self._read(k, self._own("weight_hh", k), hidden_dropout)

    def _read(self, k: int, recurrent: Tensor | None, hidden_dropout: float) -> StringDirection:
        bias, logit = self._own("bias", k), self._own("decay_logit", k)
        weight, decay = self._products(k), None
        if logit is not None:
            decay = torch.sigmoid(logit)
        elif not isinstance(self.decay, str):
            # not stored as a tensor, so that it is exact after conversion of the layer to float64
            decay = weight.new_full((), self.decay)
        bias = None if bias is None else bias.reshape(-1, self.hidden_size)
        logits = self._own("readout", k)
        alpha = None if logits is None else F.softplus(logits).clamp(min=SMALLEST)
        psi = self.activation if callable(self.activation) else None
        gates = bias, decay, recurrent, hidden_dropout
        return StringDirection(self.chains[k], weight, *gates, alpha, psi)

    def _products(self, k: int) -> Tensor:
        weight = self._own("weight_ih", k)
        return weight.reshape(-1, self.hidden_size, weight.shape[1])

    def _reset_direction(self, k: int) -> None:
        """Initialize a direction; ``docs/derivations/initialization.md`` has the derivation."""
        recurrent = undropped(self, "weight_hh" + self.suffixes[k])
        bias, logit = self._own("bias", k), self._own("decay_logit", k)
        weights = StringWeights(self._products(k), recurrent, bias, logit, self.decay)
        draw_chain(self.chains[k], weights, self.initialization)
        if (logits := self._own("readout", k)) is not None:
            nn.init.constant_(logits, math.log(math.e - 1))  # α = 1, as in "sum"

    def _check_options_have_effect(self) -> None:
        if self.chain.highway and self.hidden_size not in self.features:
            raise ArgumentError(
                "highway",
                True,
                f"False, since no layer has an input of hidden_size = {self.hidden_size} features",
                hint=f"The layers' inputs have {sorted(set(self.features))}; use that size.",
            )
        if self.hidden_dropout and not (self.chain.is_state_gated or self.chain.highway):
            expected = "0 for gates that do not depend on the hidden state"
            hint = "Use decay='state' or highway=True, or nn.Dropout on the output."
            raise ArgumentError("hidden_dropout", self.hidden_dropout, expected, hint=hint)
