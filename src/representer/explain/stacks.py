"""The decomposition of a weighted sum of the outputs of several layers, down to the first layer.

    y = sum_l sum_t v_t^(l) . h_t^(l)           h^(l) the output of layer l, of both directions

Given gates and activations, the top layer's part of y is sum_t u_t . h_t^(L-1), a read-out of the
layer below; u is added to the weights of that layer. The weights are propagated in this way to the
first layer, whose read-out is decomposed over the tokens.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from representer.checks import check_integer
from representer.errors import ArgumentError, KindError
from representer.explain.ngrams import NgramContribution, check_sequence
from representer.explain.recurrent import LedgerRow, MemoryLedger, memory_ledger
from representer.explain.string_readout import StringReadout, check_weights, string_readout
from representer.nn import StringKernelRNN
from representer.nn.recurrent.machine import RecurrentKernelMachine

Layer = StringKernelRNN | RecurrentKernelMachine


@dataclass(frozen=True)
class StackReadout:
    """The decomposition of a weighted sum of outputs over the units of the first layer.

    Units are numbered as in the first layer's output: units H to 2H − 1 belong to the reverse
    direction. Steps are numbered as in the sequence.

    Attributes:
        parts: The directions of the first layer, each a separate layer in float64.
        readouts: The read-out of each direction; that of the reverse direction is in reverse order.
        constant: The part independent of all steps, from the biases of all layer norms.
        input_weights: Weights u of the input ``(T, I)``, with y = sum_t u_t · x_t + constant.
    """

    parts: tuple[Layer, ...]
    readouts: tuple[StringReadout | MemoryLedger, ...]
    constant: float
    input_weights: Tensor

    def steps(self) -> Tensor:
        """Return the contribution of each token through each unit ``(T, D·H)``.

        Their sum plus the constant is y.
        """
        contributions = [r.steps() if isinstance(r, StringReadout) else r.contribution
                  for r in self.readouts]  # fmt: skip
        return _concatenate(contributions)

    def every_ngram(self) -> dict[tuple[int, ...], float] | None:
        """Return the contribution of every n-gram by ascending positions, summed over units.

        Their sum plus the constant is y. None without n-grams, see `StringReadout.every_ngram`.
        """
        total: dict[tuple[int, ...], float] = {}
        for direction, readout in enumerate(self.readouts):
            if not isinstance(readout, StringReadout) or (ngrams := readout.every_ngram()) is None:
                return None
            last = len(readout.state_weights) - 1
            for positions, value in ngrams.items():
                ngram = tuple(last - t for t in reversed(positions)) if direction else positions
                total[ngram] = total.get(ngram, 0.0) + value
        return total

    def ngrams(self, unit: int, k: int) -> list[NgramContribution]:
        """Return the k n-grams of largest absolute contribution to y through one unit.

        The positions of an n-gram of the reverse direction are in descending order.

        Raises:
            KindError: If the layers have no n-grams.
            ArgumentError: If unit or k is out of range.
        """
        size = self.parts[0].hidden_size
        check_integer("unit", unit, 0, len(self.parts) * size - 1)
        readout = self.readouts[unit // size]
        if not isinstance(readout, StringReadout):
            raise KindError("layer", repr(self.parts[0]), "a StringKernelRNN", hint="Use rows.")
        ngrams = readout.ngrams(unit % size, k)
        if unit < size:
            return ngrams
        last = len(readout.state_weights) - 1
        return [
            NgramContribution(tuple(last - t for t in n.positions), n.contribution) for n in ngrams
        ]

    def rows(self, k: int) -> list[LedgerRow]:
        """Return the k steps of largest absolute contribution through one direction.

        Raises:
            KindError: If the layers have no memory cells.
            ArgumentError: If k is not a positive integer.
        """
        rows: list[LedgerRow] = []
        for number, (layer, readout) in enumerate(zip(self.parts, self.readouts, strict=True)):
            if not isinstance(readout, MemoryLedger):
                raise KindError(
                    "layer", repr(layer), "a recurrent kernel machine", hint="Use ngrams."
                )
            for row in readout.rows(k):
                step = len(readout.contribution) - 1 - row.step if number else row.step
                rows.append(row._replace(step=step, unit=row.unit + number * layer.hidden_size))
        return sorted(rows, key=lambda row: -abs(row.contribution))[:k]


def stack_readout(
    layers: Layer | Sequence[Layer], input: Tensor, weights: Tensor | Sequence[Tensor]
) -> StackReadout:
    r"""Decompose a weighted sum of the outputs of stacked layers.

    .. math::
        y = \sum_l \sum_t v_t^{(l)} \cdot h_t^{(l)}, \qquad h^{(0)}_t = x_t

    The part of a layer in y is :math:`\sum_t u_t \cdot h_t^{(l-1)}`, where :math:`u` are the
    ``input_weights`` of `StringReadout` or `MemoryLedger`. It is exact given the values of the
    gates and of :math:`\sigma(s)/s` in all layers. The contribution of an n-gram of a higher layer
    is divided equally among its tokens.

    Args:
        layers: One layer or several, from the lowest; each may itself have several layers and two
            directions. String-kernel networks as in `string_readout`, recurrent kernel machines
            as in `memory_ledger`.
        input: One sequence.
        weights: v of each of ``layers``, or a single v for a single layer. It weights the output of
            the last layer of a module with several layers.

    Shape:
        - input ``(T, I)``; weights ``(T / stride, D·H)`` each

    Raises:
        KindError: If the outputs of a layer are not sums over the steps (the message states the
            reason), or if input or weights are of the wrong kind.
        ShapeError: If a shape is wrong.
        ArgumentError: If the numbers of weights and layers differ, or a value is not finite.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (4), sections 4, 6.1 and 6.2.
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (9), (10), (20).
    """
    modules = [layers] if isinstance(layers, StringKernelRNN | RecurrentKernelMachine) else layers
    vs = [weights] if isinstance(weights, Tensor) else weights
    if not modules or len(vs) != len(modules):
        raise ArgumentError("len(weights)", len(vs), f"{len(modules)}, one for each layer")
    for layer in modules:
        if not isinstance(layer, StringKernelRNN | RecurrentKernelMachine):
            kinds = "a StringKernelRNN or a recurrent kernel machine"
            raise KindError("layer", type(layer).__name__, kinds)
    x = check_sequence(modules[0], input, is_stride_allowed=True).detach().double()
    stack: list[tuple[Layer, ...]] = []
    read: list[Tensor | None] = []
    for layer, v in zip(modules, vs, strict=True):
        width = layer.hidden_size * layer.num_directions
        read += [None] * (layer.num_layers - 1) + [
            check_weights(v, len(input) // modules[0].stride, width)
        ]
        exact = copy.deepcopy(layer).double().eval()
        stack += [
            tuple(exact.part(k, bool(d)) for d in range(layer.num_directions))
            for k in range(layer.num_layers)
        ]
    return _decompose(stack, _inputs(stack, x), read)


@torch.no_grad()
def _inputs(stack: Sequence[tuple[Layer, ...]], x: Tensor) -> list[Tensor]:
    """Return the input of each layer."""
    inputs = [x]
    for parts in stack[:-1]:
        outputs = [layer(_in_direction(inputs[-1], d))[0] for d, layer in enumerate(parts)]
        inputs.append(_concatenate(outputs))
    return inputs


def _decompose(
    stack: Sequence[tuple[Layer, ...]], inputs: Sequence[Tensor], read: Sequence[Tensor | None]
) -> StackReadout:
    """Decompose the layers from the last to the first."""
    constant, readouts = 0.0, []
    upstream: Tensor = torch.zeros(())  # weights of the outputs of a layer
    for parts, x, own_weights in zip(
        reversed(stack), reversed(inputs), reversed(read), strict=True
    ):
        v = upstream if own_weights is None else upstream + own_weights
        readouts, upstream = [], torch.zeros_like(x)
        for d, (layer, weights) in enumerate(zip(parts, v.chunk(len(parts), dim=1), strict=True)):
            arguments = _in_direction(x, d), _in_direction(weights, d)
            if isinstance(layer, StringKernelRNN):
                readout = string_readout(layer, *arguments)
                input_weights = readout.input_weights()
            else:
                readout = memory_ledger(layer, *arguments)
                input_weights, constant = readout.input_weights, constant + readout.constant
            upstream = upstream + _in_direction(input_weights, d)
            readouts.append(readout)
    return StackReadout(tuple(stack[0]), tuple(readouts), constant, upstream)


def _in_direction(rows: Tensor, direction: int) -> Tensor:
    """Reverse the rows for the reverse direction."""
    return rows.flip(0) if direction else rows


def _concatenate(rows: Sequence[Tensor]) -> Tensor:
    """Concatenate the rows of both directions, given in the order of each direction."""
    return torch.cat([_in_direction(each, d) for d, each in enumerate(rows)], dim=-1)


# Exact contributions of inputs to the scores of a model, with the interface of Captum.
#
# A score is locally linear in the outputs h of the recurrent layers where what follows them has no
# other nonlinearity than relu:
#
#     score = sum_l sum_t v_t^(l) . h_t^(l) + sum_b b dscore/db,      v = dscore/dh, b the biases
#
# `stack_readout` decomposes the first sum over the inputs of the first layer.

_TOLERANCE = 1e-6  # of the size of the terms; rounding in float64 is far below
_EXPECTED = (
    "a model in which no bias or nonlinearity comes before the recurrent layers, and only linear "
    "functions and relus come after them"
)


class _Call(NamedTuple):
    """A call of a recurrent layer for one sequence."""

    layer: Layer
    input: Tensor  # its input, with its history
    output: Tensor  # its output, cut from its history
    length: int  # number of steps that are no padding


class _Sum(NamedTuple):
    """A score of one example: contributions of its input, and the constant."""

    contributions: Tensor
    constant: Tensor
    delta: Tensor


class ExactAttribution:
    """The exact contributions of inputs to the scores of a model, as a method of Captum.

    A score is the sum of all contributions of its input and a constant, which comes from biases
    alone. Gates, relus, tanh(c)/c and divisors of layer norms are held constant, see
    `stack_readout`. The contribution of an n-gram is divided equally among its tokens.

    Captum is not needed; its metrics and visualizations take what `attribute` returns.

    Args:
        forward_func: A model whose inputs reach its string-kernel networks or recurrent kernel
            machines as they are or by a linear map without a bias, such as an embedding. Each layer
            reads the outputs of the one before, and only linear functions and relus lead from their
            outputs to the scores. `SequenceNetwork`, `StackedClassifier` and, without pooled
            powers, `SignalClassifier` are such models; a single layer with ``batch_first=True`` is
            one as well.
        held: Modules whose outputs are held constant; by default the ``attention`` of the model if
            it has one.

    Raises:
        KindError: If the model has no such layer.

    References:
        Kokhlikyan et al., Captum: A unified and generic model interpretability library for
        PyTorch, arXiv:2009.07896, 2020.
    """

    def __init__(self, forward_func: nn.Module, held: Sequence[nn.Module] | None = None) -> None:
        layers = [module for module in forward_func.modules() if _is_layer(module)]
        if not layers:
            expected = "a model with a StringKernelRNN or a recurrent kernel machine"
            raise KindError("forward_func", type(forward_func).__name__, expected)
        if layers[0] is forward_func and not layers[0].batch_first:
            raise ArgumentError("layer.batch_first", False, "True, as Captum's inputs are")
        self.forward_func = forward_func
        attention = getattr(forward_func, "attention", None)
        default = [attention] if isinstance(attention, nn.Module) else []
        self.held = default if held is None else list(held)

    def has_convergence_delta(self) -> bool:
        """Return True: `attribute` can return the rounding error."""
        return True

    def attribute(
        self,
        inputs: Tensor | tuple[Tensor],
        target: Any = None,
        additional_forward_args: Any = None,
        return_convergence_delta: bool = False,
    ) -> Any:
        """Return the contribution of each entry of the inputs, or of each token.

        Args:
            inputs: Numbers, or token ids ``(B, T)``; a tuple of one tensor gives one.
            target: Index of the score as in Captum: an integer, a tuple for scores with more than
                two dimensions, or a list or tensor with one of them for each example; None for one
                score per example.
            additional_forward_args: Further arguments of the model, one or a tuple.
            return_convergence_delta: Return the score minus the constant and all contributions,
                ``(B,)``, as well. It is 0 up to rounding.

        Returns:
            The contributions, of the shape of the inputs.

        Raises:
            KindError: If a score is not such a sum; the message states the reason.
            ArgumentError: If the target does not select one score for each example.
        """
        if isinstance(inputs, tuple):  # as metrics of Captum call it
            if len(inputs) != 1:
                hint = "Pass the others as additional_forward_args."
                raise ArgumentError("len(inputs)", len(inputs), "1", hint=hint)
            sums = self.attribute(inputs[0], target, additional_forward_args, True)
            return ((sums[0],), sums[1]) if return_convergence_delta else (sums[0],)
        sums = self._sums(inputs, target, additional_forward_args)
        dtype = next(self.forward_func.parameters()).dtype
        contributions = torch.stack([each.contributions for each in sums]).to(dtype)
        if not return_convergence_delta:
            return contributions
        return contributions, torch.stack([each.delta for each in sums])

    def constant(
        self, inputs: Tensor, target: Any = None, additional_forward_args: Any = None
    ) -> Tensor:
        """Return the part of each score that comes from biases ``(B,)``; see `attribute`."""
        sums = self._sums(inputs, target, additional_forward_args)
        return torch.stack([each.constant for each in sums])

    @torch.enable_grad()
    def _sums(self, inputs: Tensor, target: Any, arguments: Any) -> list[_Sum]:
        """Decompose the score of each example in float64."""
        model, held = copy.deepcopy((self.forward_func, self.held))
        model.double().eval().requires_grad_(False)
        in_layers = {id(p) for m in model.modules() if _is_layer(m) for p in m.parameters()}
        biases = [
            parameter.requires_grad_()
            for name, parameter in model.named_parameters()
            if "bias" in name.rpartition(".")[2] and id(parameter) not in in_layers
        ]
        others = arguments if isinstance(arguments, tuple) else (arguments,)
        others = () if arguments is None else others
        sums = []
        for k in range(len(inputs)):
            x, *rest = (_example(each, k) for each in (inputs.detach(), *others))
            x.requires_grad_(x.is_floating_point())
            with _recorded(model, held) as calls:
                output = model(x, *rest)
            output = output[0] if _is_layer(model) else output
            score = _score(output, _target_of(target, k, len(inputs)))
            parts = _decomposed(x, score, biases, calls)
            if abs(parts.delta) > _TOLERANCE * (1 + parts.contributions.abs().sum()):
                name, total = type(model).__name__, score - parts.delta
                hint = f"Its terms sum to {total:.6g}, and the score is {score:.6g}."
                raise KindError("forward_func", name, _EXPECTED, hint=hint)
            sums.append(parts)
        return sums


def _is_layer(module: nn.Module) -> bool:
    return isinstance(module, StringKernelRNN | RecurrentKernelMachine)


@contextmanager
def _recorded(model: nn.Module, held: Sequence[nn.Module]) -> Iterator[list[_Call]]:
    """Record the calls of recurrent layers, and cut the histories of their outputs."""
    calls: list[_Call] = []

    def record(layer: Any, inputs: tuple[Any, ...], options: dict[str, Any], result: Any) -> Any:
        if len(inputs) != 1 or not isinstance(inputs[0], Tensor) or options.get("state"):
            expected = "one tensor, without a state, padded with lengths rather than packed"
            raise KindError(f"the input of {type(layer).__name__}", "another", expected)
        output = result[0].detach().requires_grad_()
        steps = inputs[0].shape[1 if layer.batch_first and inputs[0].dim() == 3 else 0]
        lengths = options.get("lengths")
        calls.append(_Call(layer, inputs[0], output, steps if lengths is None else int(lengths)))
        return output, result[1]

    hooks = [module.register_forward_hook(record, with_kwargs=True)
             for module in model.modules() if _is_layer(module)]  # fmt: skip
    hooks += [module.register_forward_hook(lambda *call: call[-1].detach()) for module in held]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _decomposed(x: Tensor, score: Tensor, biases: list[Any], calls: list[_Call]) -> _Sum:
    """Decompose the score of one example with input x."""
    read = [call.output for call in calls]
    gradients = torch.autograd.grad(score, [*read, *biases], materialize_grads=True)
    weights, constant = _input_weights(calls, gradients[: len(calls)])
    for bias, gradient in zip(biases, gradients[len(calls) :], strict=True):
        constant = constant + (bias * gradient).sum().detach()
    reached = calls[0].input
    if x.is_floating_point():
        (weights,) = torch.autograd.grad(reached, x, weights, materialize_grads=True)
        contributions = (x * weights).detach()[0]
    else:
        contributions = (reached.detach() * weights).sum(-1).reshape(x.shape[1:])
    return _Sum(contributions, constant, score.detach() - constant - contributions.sum())


def _input_weights(calls: Sequence[_Call], weights: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the weights of the input of the first layer, in its layout, and the constant."""
    for below, above in pairwise(calls):
        if not torch.equal(_rows(above, above.input), _rows(below, below.output)):
            name = type(above.layer).__name__
            raise KindError(f"the input of {name}", "another", "the outputs of the layer before it")
    first = calls[0]
    rows = _rows(first, first.input).detach()[: first.length]
    steps = first.length // first.layer.stride
    read = [_rows(c, v)[:steps] for c, v in zip(calls, weights, strict=True)]
    readout = stack_readout([call.layer for call in calls], rows, read)
    padded = torch.zeros_like(_rows(first, first.input))
    padded[: first.length] = readout.input_weights
    return padded.reshape(first.input.shape), padded.new_tensor(readout.constant)


def _rows(call: _Call, tensor: Tensor) -> Tensor:
    """Return the input or output of a layer for its one sequence ``(T, I)``."""
    return tensor if tensor.dim() == 2 else tensor.squeeze(0 if call.layer.batch_first else 1)


def _example(argument: Any, k: int) -> Any:
    """Return the part of an argument that belongs to one example, with a batch of 1."""
    if not isinstance(argument, Tensor):
        return argument
    row = argument[k : k + 1]
    return row.double() if row.is_floating_point() else row


def _target_of(target: Any, k: int, count: int) -> Any:
    """Return the target of one example, see `ExactAttribution.attribute`."""
    target = target.tolist() if isinstance(target, Tensor) else target
    if not isinstance(target, list):
        return target
    if len(target) not in (1, count):
        raise ArgumentError("len(target)", len(target), f"1 or {count}, the number of examples")
    return target[k if len(target) > 1 else 0]


def _score(output: Tensor, target: Any) -> Tensor:
    """Return the selected score of a batch of one."""
    try:
        score = output[0] if target is None else output[0][target]
    except IndexError:
        score = output
    if score.numel() != 1:
        shape = tuple(output.shape[1:])
        raise ArgumentError(
            "target", target, f"the index of one score among those of shape {shape}"
        )
    return score.reshape(())


# A weighted sum of the outputs of recurrent layers as a sum over the words of a text.


class NgramContributions(NamedTuple):
    """The contributions that, with the constant, sum to what is read of the layers."""

    # positions of the words of each n-gram, and its contribution, in reading order
    ngrams: list[tuple[tuple[int, ...], float]]
    constant: float  # the part that no word contributes


def ngram_contributions(
    layers: Sequence[Layer], x: Tensor, weights: Sequence[Tensor]
) -> NgramContributions:
    """Return the contributions of the n-grams of a text to a weighted sum of outputs.

    The contributions are exact, given the values of the gates and of the divisors of layer norms.
    For one layer and one direction of a recurrent kernel machine, they are those of the windows of
    its filters; for string kernels, those of n-grams with gaps, unless there are too many; for any
    other network, those of the single words. Layers are listed from the lowest, with the weight of
    the output of every step for each of them ``(T, D·H)``.
    """
    readout = stack_readout(layers, x, weights)
    if (every := readout.every_ngram()) is not None:
        return NgramContributions(list(every.items()), readout.constant)
    values, length, dilation = readout.steps().sum(1), 1, 1
    layer, ledger = layers[0], readout.readouts[0]
    is_flat = len(layers) == layer.num_layers == layer.num_directions == 1
    if is_flat and isinstance(layer, RecurrentKernelMachine) and isinstance(ledger, MemoryLedger):
        values, dilation = ledger.by_ngram.sum(1), layer.dilation
        length = layer.filters()["candidate"].shape[-1]
    reach = (length - 1) * dilation
    windows = [tuple(s for s in range(t - reach, t + 1, dilation) if s >= 0) for t in range(len(x))]
    return NgramContributions(list(zip(windows, values.tolist(), strict=True)), readout.constant)


def require_layers(layers: Iterable[nn.Module], cell: str) -> list[Layer]:
    """Return layers that have contributions."""
    stack = list(layers)
    readable = [x for x in stack if isinstance(x, StringKernelRNN | RecurrentKernelMachine)]
    if len(readable) < len(stack):
        raise KindError(
            "the cell of the run", cell, "string-kernel, or one of the recurrent kernel machines",
            hint="Its output is not a sum of contributions.",
        )  # fmt: skip
    return readable


def with_gaps(words: Sequence[str], positions: Sequence[int]) -> str:
    """Return the words of an n-gram, with dots for skipped words."""
    text = words[positions[0]]
    for before, t in pairwise(positions):
        text += f"{' ' if t == before + 1 else ' … '}{words[t]}"
    return text
