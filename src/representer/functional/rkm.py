"""The equations of L19: n-grams, wavelets, the recurrent kernel, the cells, and their recurrence.

(12)-(14) and (21) are the filters, (9) and (15) ``gated_scan``, (4)-(7) the kernel as nested
applications of q; Table 1 are instances of ``Cell``, which ``rkm_scan`` runs: (8)-(11), (17)-(19).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.errors import ArgumentError
from representer.functional.activations import NONLINEARITIES

# The n-gram input of a filter, and its product with the filter.
#
#     X~ . X_t = X~_0 x_t + X~_1 x_{t-d} + ... + X~_{n-1} x_{t-(n-1)d}
#
# Liang et al. 2019, (12)-(14) and section 4.2 (d is the dilation). Steps before the first are zeros
# at the start of a sequence. Shapes: T time, B batch, I features, n filter length, P = (n-1)d
# preceding steps of a window, O filters.


def ngram_product_definition(x: Tensor, filters: Tensor, dilation: int = 1) -> Tensor:
    """Evaluate X~ . X_t as written, with zeros before the first step. An oracle.

    Args:
        x: Sequence ``(T, B, I)``.
        filters: ``(O, I, n)``; slot s multiplies x_{t - s d}.
        dilation: d, steps between the slots.

    Returns:
        ``(T, B, O)``.
    """
    products = x.new_zeros(*x.shape[:2], len(filters))
    for t in range(len(x)):
        for s in range(filters.shape[-1]):
            if t - s * dilation >= 0:
                products[t] += x[t - s * dilation] @ filters[:, :, s].T
    return products


def ngram_product(
    x_extended: Tensor, filters: Tensor, dilation: int = 1, *, reverse: bool = False
) -> Tensor:
    """Multiply every window with every filter, as one matrix product.

    Args:
        x_extended: The sequence with the P steps before it ``(P + T, B, I)``; with ``reverse``,
            with the P steps after it.
        filters: ``(O, I, n)``; slot s multiplies x_{t - s d}, or x_{t + s d} with ``reverse``.
        dilation: d, steps between the slots.
        reverse: Read the sequence from its end.

    Returns:
        ``(T, B, O)``.
    """
    windows = ngram_windows(x_extended, filters.shape[-1], dilation, reverse=reverse)
    return F.linear(windows, filters.movedim(2, 1).flatten(1))


def ngram_windows(
    x_extended: Tensor, n: int, dilation: int = 1, *, reverse: bool = False
) -> Tensor:
    """Return X_t of every step ``(T, B, n I)``, newest slot first.

    Args:
        x_extended: As of `ngram_product`.
        n: Slots of a window.
        dilation: d, steps between the slots.
        reverse: Read the sequence from its end.
    """
    if n == 1:
        return x_extended
    reach = (n - 1) * dilation
    time = x_extended.shape[0] - reach
    starts = range(0, reach + 1, dilation)
    shifted = [x_extended[start : start + time] for start in (starts if reverse else starts[::-1])]
    return torch.cat(shifted, dim=-1)


# Wavelet filters: an oscillation with a Gaussian window.
#
#     x~(t) = alpha cos(omega t + phi) exp(-beta t^2)
#
# Liang et al. 2019, (21) and appendix A. The time t of a slot is counted in samples from the middle
# of the window: of n samples, oldest first, t = -floor(n/2), ..., n-1-floor(n/2). Shapes: O
# filters, I features (channels), n filter length.


def wavelet_times(n: int, *, like: Tensor) -> Tensor:
    """Return t of each slot ``(n,)`` in samples, newest slot first: slot s multiplies x_{t-s}.

    Args:
        n: Slots of a filter.
        like: A tensor with the dtype and the device of the times.
    """
    newest = n - 1 - n // 2
    return torch.arange(newest, newest - n, -1, device=like.device, dtype=like.dtype)


def wavelet_filters(
    amplitude: Tensor, frequency: Tensor, phase: Tensor, decay: Tensor, n: int
) -> Tensor:
    """Return the coefficients of wavelet filters.

    Args:
        amplitude: alpha ``(…, O, I)``.
        frequency: omega ``(…, O)``, radians per sample; one oscillation for all channels.
        phase: phi ``(…, O, I)``, radians.
        decay: beta ``(…, O)``, per squared sample, non-negative.
        n: Slots of a filter.

    Returns:
        ``(…, O, I, n)``; slot s multiplies x_{t - s}.
    """
    t = wavelet_times(n, like=amplitude)
    angle = frequency[..., None, None] * t + phase[..., None]
    window = torch.exp(-decay[..., None, None] * t.square())
    return amplitude[..., None] * torch.cos(angle) * window


def wavelet_factors(
    amplitude: Tensor, frequency: Tensor, phase: Tensor, decay: Tensor, n: int
) -> tuple[Tensor, Tensor]:
    """Factor wavelet filters into channels and slots; arguments as in ``wavelet_filters``.

    alpha cos(omega t + phi) = (alpha cos phi) cos(omega t) + (alpha sin phi) (-sin(omega t))

    Returns:
        Weights of the channels ``(2, …, O, I)``, and the windowed cosine and sine
        ``(2, …, O, n)``; slot s multiplies x_{t - s}.
    """
    t = wavelet_times(n, like=amplitude)
    angle = frequency[..., None] * t
    window = torch.exp(-decay[..., None] * t.square())
    mix = torch.stack((amplitude * phase.cos(), amplitude * phase.sin()))
    return mix, torch.stack((angle.cos(), -angle.sin())) * window


def wavelet_filters_definition(
    amplitude: Tensor, frequency: Tensor, phase: Tensor, decay: Tensor, n: int
) -> Tensor:
    """Evaluate (21) for ``(O, I)`` filters. An oracle; arguments as in ``wavelet_filters``."""
    filters = amplitude.new_zeros(*amplitude.shape, n)
    for o in range(amplitude.shape[0]):
        for c in range(amplitude.shape[1]):
            for position in range(n):  # from the oldest sample
                t = position - n // 2
                wave = math.cos(float(frequency[o]) * t + float(phase[o, c]))
                window = math.exp(-float(decay[o]) * t**2)
                filters[o, c, n - 1 - position] = float(amplitude[o, c]) * wave * window
    return filters


# A convolution over time with filters of low rank, separable into channels and slots.
#
#     y_t[o] = sum_r sum_k taps_r[o, k] z_r[t stride + k dilation, o],    z_r[s] = mix_r x_s
#
# Wavelets of one frequency for all channels (Liang et al. 2019, (21)) have rank R = 2: a cosine and
# a sine, weighted by channel. Shapes: S samples, I channels, O filters, n slots.


def separable_convolution(
    x: Tensor, mix: Tensor, taps: Tensor, *, stride: int = 1, dilation: int = 1
) -> Tensor:
    """Convolve with separable filters, whose slot 0 is the oldest sample as in ``F.conv1d``.

    Args:
        x: ``(S, B, I)``.
        mix: ``(R, O, I)``.
        taps: ``(R, O, n)``.
        stride: Samples between two steps.
        dilation: Samples between two slots.

    Returns:
        y ``(T, B, O)`` with T = floor((S - (n - 1) dilation - 1) / stride) + 1.
    """
    filters = torch.einsum("roi,ron->oin", mix, taps)
    product = F.conv1d(x.permute(1, 2, 0), filters, stride=stride, dilation=dilation)
    return product.permute(2, 0, 1)


def separable_convolution_definition(
    x: Tensor, mix: Tensor, taps: Tensor, *, stride: int = 1, dilation: int = 1
) -> Tensor:
    """Evaluate y ``(T, B, O)`` as written. An oracle; arguments as in ``separable_convolution``."""
    rank, outputs, n = taps.shape
    steps = (x.shape[0] - (n - 1) * dilation - 1) // stride + 1
    y = x.new_zeros(steps, x.shape[1], outputs)
    for t in range(steps):
        for b in range(x.shape[1]):
            for o in range(outputs):
                for r in range(rank):
                    for k in range(n):
                        mixed = torch.dot(mix[r, o], x[t * stride + k * dilation, b])
                        y[t, b, o] += taps[r, o, k] * mixed
    return y


# The elementwise linear recurrence of all cells without feedback.
#
#     c_t = f_t * c_{t-1} + u_t,      c_0 given                          scan
#     c_t = sum_{s<=t} (f_{s+1} ... f_t) * u_s  +  (f_1 ... f_t) * c_0   definition
#
# Liang et al. 2019, (9) and (15) with f = sigma_f^2 and u = sigma_i^2 c~. Shapes: T time, B batch,
# H units.


def gated_scan_definition(u: Tensor, f: Tensor, c0: Tensor) -> Tensor:
    """Evaluate the sum as written. An oracle: quadratic in T.

    Args:
        u: Input of each step ``(T, B, H)``.
        f: Decay of each step, broadcastable to ``(T, B, H)``.
        c0: State before the first step ``(B, H)``.

    Returns:
        c_1..c_T ``(T, B, H)``.
    """
    f = f.expand_as(u)
    states = []
    for t in range(len(u)):
        c_t = f[: t + 1].prod(0) * c0
        for s in range(t + 1):
            c_t = c_t + f[s + 1 : t + 1].prod(0) * u[s]
        states.append(c_t)
    return torch.stack(states)


def gated_scan(
    u: Tensor, f: Tensor, c0: Tensor, *, lengths: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """Run the recurrence in O(T).

    Args:
        u: Input of each step ``(T, B, H)``.
        f: Decay of each step: a scalar, a vector ``(H,)`` or ``(T, B, H)``.
        c0: State before the first step ``(B, H)``.
        lengths: True lengths ``(B,)``; beyond them the state does not change and the output is 0.
        reverse: Run from the last true step to the first.

    Returns:
        c_1..c_T ``(T, B, H)`` and the final state ``(B, H)``.
    """
    f = f.expand_as(u)
    c = c0
    states: list[Tensor] = [c0] * len(u)
    for t in reversed(range(len(u))) if reverse else range(len(u)):
        c_new = f[t] * c + u[t]
        if lengths is None:
            states[t] = c = c_new
        else:
            is_real = (t < lengths)[:, None]
            c = torch.where(is_real, c_new, c)
            states[t] = torch.where(is_real, c_new, torch.zeros_like(c))
    return torch.stack(states), c


# The recurrent kernel of L19, as nested applications of q.
#
#     k(x_1..x_T, y) = q(<y, x_T> + q(<y, x_{T-1}> + ... q(<y, x_1>)))            (5)
#
# and, between two sequences aligned from their last tokens,
#
#     k(x, y) = q(<x_T, y_S> + k(x_{<T}, y_{<S})),      k(empty, .) = 0.
#
# Liang et al. 2019, (4)-(7), (14); Hermans & Schrauwen 2012. Footnote 2's Gaussian form is a
# function of the distance, q(||z~ - z||^2) with q(d) = e^{-d/2}, where ||h~ - h||^2 = 2 - 2k for
# the feature vectors of the kernel, and 0 before the first step.


def recurrent_kernel_definition(
    similarities: Tensor, q: Callable[[Tensor], Tensor], steps: int | None = None
) -> Tensor:
    """Nest q over similarities ``(T, ...)``, oldest first. An oracle: recursive.

    Args:
        similarities: <y_s, x_s> for the aligned pairs of steps ``(T, ...)``.
        q: Elementwise function.
        steps: Number of steps to nest, from the first; all by default.

    Returns:
        k ``(...)``; zeros for T = 0.
    """
    steps = len(similarities) if steps is None else steps
    if steps == 0:
        return similarities.new_zeros(similarities.shape[1:])
    earlier = recurrent_kernel_definition(similarities, q, steps - 1)
    return q(similarities[steps - 1] + earlier)


def gaussian_kernel_definition(squared_distances: Tensor) -> Tensor:
    """Evaluate footnote 2's form. An oracle.

    Args:
        squared_distances: ||x~ - x_s||^2 ``(T, ...)``, oldest first.

    Returns:
        k ``(...)`` in (0, 1]; ones for T = 0.
    """
    hidden = squared_distances.new_zeros(squared_distances.shape[1:])  # ||h~_0 - h_0||^2
    k = torch.ones_like(hidden)
    for distance in squared_distances:
        k = torch.exp(-(distance + hidden) / 2)
        hidden = 2 - 2 * k
    return k


# A recurrent cell as frozen data: one row of L19 Table 1. Every cell is an instance of
#
#     c~_t = phi(a_t + W h_{t-1})                       candidate
#     c_t  = i_t * c~_t + f_t * m_{t-1}                 memory cell, then layer norm if requested
#     h_t  = o_t * psi(c_t)                             emission
#
# and differs from the others only in the fields of `Cell`. Liang et al. 2019, (8)-(11), (18)-(19).


def compute_cached(owner: object) -> None:
    """Compute the cached properties of an object's class.

    Later is too late: torch.compile reads a cached property, but cannot compute it.
    """
    for name, attribute in vars(type(owner)).items():
        if isinstance(attribute, cached_property):
            getattr(owner, name)


InputGate = Literal["dynamic", "coupled", "static"]
ForgetGate = Literal["dynamic", "static", "none"]
Feedback = Literal["all", "gates", "none"]
Memory = Literal["cell", "output", "expm1"]
_KNOWN = {
    "input_gate": get_args(InputGate),
    "forget_gate": get_args(ForgetGate),
    "candidate": tuple(NONLINEARITIES),
    "output": tuple(NONLINEARITIES),
    "feedback": get_args(Feedback),
    "memory": get_args(Memory),
}


@dataclass(frozen=True)
class Cell:
    """The options that distinguish recurrent cells.

    Attributes:
        input_gate: i_t: ``"dynamic"`` sigma(.), ``"coupled"`` 1 - f_t, ``"static"`` a constant.
        forget_gate: f_t: ``"dynamic"`` sigma(.), ``"static"`` a constant, ``"none"`` 0.
        output_gate: If True, o_t = sigma(.); otherwise o_t = 1.
        candidate: phi, a name of ``nonlinearities``.
        output: psi, a name of ``nonlinearities``.
        feedback: Pre-activations that depend on h_{t-1}: all, all but the candidate, or none.
        memory: m_{t-1}: the cell c_{t-1}; the output h_{t-1} (L19 (6), where q(c_{t-1}) is both);
            or e^{c_{t-1}} - 1, the Gaussian kernel minus its initial value.
        candidate_bias: If True, the candidate has a bias (as in the LSTM, L19 section 4.3).

    Raises:
        ArgumentError: If an option is unknown.
    """

    input_gate: InputGate
    forget_gate: ForgetGate
    output_gate: bool
    candidate: str = "identity"
    output: str = "identity"
    feedback: Feedback = "all"
    memory: Memory = "cell"
    candidate_bias: bool = False

    def __post_init__(self) -> None:
        for name, choices in _KNOWN.items():
            if getattr(self, name) not in choices:
                raise ArgumentError(name, getattr(self, name), f"one of {', '.join(choices)}")
        compute_cached(self)

    @cached_property
    def gates(self) -> tuple[str, ...]:
        """The pre-activations of the cell, in their order in tensors."""
        return (
            "candidate", *("input",) * (self.input_gate == "dynamic"),
            *("forget",) * (self.forget_gate == "dynamic"), *("output",) * self.output_gate,
        )  # fmt: skip

    @cached_property
    def recurrent_gates(self) -> tuple[str, ...]:
        """The entries of ``gates`` that depend on h_{t-1}, always the last ones."""
        skipped = {"all": 0, "gates": 1, "none": len(self.gates)}[self.feedback]
        return self.gates[skipped:]

    @cached_property
    def biased_gates(self) -> tuple[str, ...]:
        """The entries of ``gates`` with a bias, always the last ones."""
        return self.gates if self.candidate_bias else self.gates[1:]

    @cached_property
    def has_memory(self) -> bool:
        """True if a step depends on previous ones."""
        return self.forget_gate != "none" or self.feedback != "none"

    @cached_property
    def code(self) -> str:
        """The cell as a string, since arguments of custom operators cannot be objects."""
        gated, biased = str(int(self.output_gate)), str(int(self.candidate_bias))
        fields = (self.input_gate, self.forget_gate, gated, self.candidate, self.output)
        return " ".join((*fields, self.feedback, self.memory, biased))

    @staticmethod
    @lru_cache
    def parse(code: str) -> Cell:
        """Return the cell from its ``code``."""
        i, f, gated, candidate, output, feedback, memory, biased = code.split(" ")
        return Cell(
            cast(InputGate, i), cast(ForgetGate, f), gated == "1", candidate, output,
            cast(Feedback, feedback), cast(Memory, memory), biased == "1",
        )  # fmt: skip


LSTM = Cell("dynamic", "dynamic", True, candidate="tanh", output="tanh", candidate_bias=True)
RKM_LSTM = Cell("dynamic", "dynamic", True)
RKM_CIFG = Cell("coupled", "dynamic", True)
LINEAR_KERNEL_GATED = Cell("static", "static", True)
LINEAR_KERNEL = Cell("static", "static", False, output="tanh")
GATED_CNN = Cell("static", "none", True, feedback="none")
CNN = Cell("static", "none", False, output="tanh", feedback="none")
RAN = Cell("dynamic", "dynamic", False, feedback="gates")


# The recurrence of the recurrent-kernel-machine family, step by step.
#
#     a_t  = z_t + W h_{t-1}                                     L19 (18), (19)
#     c~_t = phi(a_candidate)
#     i_t  = sigma(a_input),  f_t = sigma(a_forget),  o_t = sigma(a_output)
#     c_t  = i_t * c~_t + f_t * m_{t-1}
#     c_t  = LayerNorm(c_t)                                      if ``norm``; also the memory
#     h_t  = o_t * psi(c_t)
#
# Liang et al. 2019, (8)-(11), (17)-(19) and Table 1; z_t holds the n-gram products X~ . X_t and the
# biases. This is the reference implementation for any cell, in plain torch.
#
# Shapes: T time, B batch, G pre-activations of the cell, R of them recurrent, H units.

EPS = 1e-5  # of the layer norm, as in torch.nn.LayerNorm


def rkm_scan(
    z: Tensor,
    weight: Tensor | None,
    h0: Tensor,
    c0: Tensor,
    *,
    cell: Cell,
    static: Tensor | None = None,
    norm: Tensor | None = None,
    hold: Tensor | None = None,
    lengths: Tensor | None = None,
    reverse: bool = False,
    psi: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run any cell over a sequence.

    Args:
        z: Input part of the pre-activations ``(T, B, G, H)``, gates in the order of ``cell.gates``.
        weight: Recurrent matrices ``(R, H, H)``, output by input, for ``cell.recurrent_gates``.
        h0: Output before the first step ``(B, H)``.
        c0: Memory cell before the first step ``(B, H)``.
        cell: The cell.
        static: Static gates ``(2, H)``: input and forget, where the cell's are static.
        norm: Gain and bias of the layer norm ``(2, H)``.
        hold: Fraction of the previous cell and output to keep ``(2, T, B, H)`` (zoneout).
        lengths: True lengths ``(B,)``; beyond them the state does not change and the output is 0.
        reverse: Run from the last true step to the first.
        psi: Output nonlinearity that replaces that of the cell.

    Returns:
        ``h`` of every step ``(T, B, H)`` and the last ``h`` and ``c``, each ``(B, H)``.
    """
    phi = NONLINEARITIES[cell.candidate].value
    psi = psi or NONLINEARITIES[cell.output].value
    h, c = h0, c0
    outputs: list[Tensor] = [h0] * len(z)
    for t in reversed(range(len(z))) if reverse else range(len(z)):
        a = dict(zip(cell.gates, z[t].unbind(-2), strict=True))
        if weight is not None:
            feedback_RBH = torch.einsum("rij,bj->rbi", weight, h)
            for gate, recurrent in zip(cell.recurrent_gates, feedback_RBH, strict=True):
                a[gate] = a[gate] + recurrent
        c_new = _input(cell, a, static) * phi(a["candidate"])
        if cell.forget_gate != "none":
            c_new = c_new + _forget(cell, a, static) * _memory(cell, h, c)
        if norm is not None:
            c_new = F.layer_norm(c_new, c_new.shape[-1:], norm[0], norm[1], EPS)
        h_new = psi(c_new)
        if cell.output_gate:
            h_new = torch.sigmoid(a["output"]) * h_new
        if hold is not None:
            c_new = torch.lerp(c_new, c, hold[0, t])
            h_new = torch.lerp(h_new, h, hold[1, t])
        if lengths is None:
            h, c, outputs[t] = h_new, c_new, h_new
        else:
            is_real = (t < lengths)[:, None]
            h, c = torch.where(is_real, h_new, h), torch.where(is_real, c_new, c)
            outputs[t] = torch.where(is_real, h_new, torch.zeros_like(h))
    return torch.stack(outputs), h, c


def _input(cell: Cell, a: dict[str, Tensor], static: Tensor | None) -> Tensor:
    if cell.input_gate == "dynamic":
        return torch.sigmoid(a["input"])
    if cell.input_gate == "coupled":
        return torch.sigmoid(-a["forget"])  # 1 - sigma(a)
    assert static is not None
    return static[0]


def _forget(cell: Cell, a: dict[str, Tensor], static: Tensor | None) -> Tensor:
    if cell.forget_gate == "dynamic":
        return torch.sigmoid(a["forget"])
    assert static is not None
    return static[1]


def _memory(cell: Cell, h: Tensor, c: Tensor) -> Tensor:
    return {"cell": c, "output": h, "expm1": torch.expm1(c)}[cell.memory]


def held_gates(
    cell: Cell, a: dict[str, Tensor], static: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the factors of the candidate and of the last cell, and the output gate, if any.

    Args:
        cell: The cell, whose memory is linear: the cell itself, or the output z/2 of ``"linear"``.
        a: The pre-activation of each gate.
        static: Static gates ``(2, H)``.
    """
    write = _input(cell, a, static).expand_as(a["candidate"])
    kept = torch.zeros_like(write) if cell.forget_gate == "none" else _forget(cell, a, static)
    kept = kept / 2 if cell.memory == "output" else kept
    return write, kept.expand_as(write), torch.sigmoid(a["output"]) if cell.output_gate else None
