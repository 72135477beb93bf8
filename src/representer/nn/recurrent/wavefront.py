"""Layers of a stack side by side on a GPU: a wavefront over layers and chunks of time.

A layer computes a chunk as soon as it has computed the one before, and the layer below this one:
a stack of L layers takes about (L + C - 1) / C times as long as one layer, in C chunks, and not L
times. Each layer has a stream of its own, and autograd runs the gradient of a call on the stream of
the call.

Outputs, states and their gradients are those of whole sequences, bit for bit, as far as products
with the input do not depend on the number of their rows. Gradients of weights are sums over chunks
and differ in their rounding.

No device has measured it, so nothing is divided unless the environment variable asks for it.
Kernels whose programs wait for one another run alone: those of two layers could not all be on the
device at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.nn.recurrent.core_calls import CoreSteps, layer_call
from representer.nn.recurrent.states import RecurrentState
from representer.ops.rkm_scan import Step, is_plain, is_ready, short_backend

if TYPE_CHECKING:
    from representer.nn.recurrent.sequence_layer import SequenceLayer

CHUNKS = "REPRESENTER_WAVEFRONT"  # environment variable: the number of chunks of time
MULTIPROCESSORS = 132  # where there is no device: those of an H100
BACKEND = "triton"


def plan(layer: SequenceLayer, x: Tensor) -> tuple[CoreSteps, int] | None:
    """Return the steps of a stack and the chunks of ``(T, B, I)``, or None without a wavefront.

    Each sequence is a program that fills a multiprocessor, so two layers must fit on the device.
    """
    is_stack = layer.num_layers > 1 and not layer.bidirectional and layer.stride == 1
    if not is_stack or short_backend(x) != BACKEND or not is_plain(x, BACKEND):
        return None
    asked, (time, batch) = os.environ.get(CHUNKS, ""), x.shape[:2]
    count = MULTIPROCESSORS
    if x.is_cuda:
        count = torch.cuda.get_device_properties(x.device).multi_processor_count
    chunks = min(int(asked), time) if asked.isdecimal() else 1
    if chunks < 2 or 2 * batch > count or not layer.runs_on_core:
        return None
    if layer.layout.type is not RecurrentState:
        return None
    steps, h0 = layer.core_steps(x) or (), x.new_empty(batch, layer.hidden_size)
    runs = [isinstance(step, Step) and step.runs_alone(operands, x, h0) for step, operands in steps]
    return (steps, chunks) if runs and all(runs) else None


def wavefront(
    layer: SequenceLayer, x: Tensor, states: tuple[Tensor, ...], lengths: Tensor | None
) -> tuple[Tensor, list[tuple[Tensor, ...]]] | None:
    """Run a stack over ``(T, B, I)`` from states ``(L, B, H)``, or return None if it has no plan.

    Returned are the output and the new states of each layer.
    """
    planned = plan(layer, x)
    if planned is None or not all(is_ready(state, states[0].shape, x) for state in states):
        return None
    steps, chunks = planned
    return run(layer, steps, x, states, lengths, chunks)


def run(
    layer: SequenceLayer, steps: CoreSteps, x: Tensor, states: tuple[Tensor, ...],
    lengths: Tensor | None, chunks: int, backend: str = BACKEND,
) -> tuple[Tensor, list[tuple[Tensor, ...]]]:  # fmt: skip
    """Run the layers of a stack on chunks of time, each on its stream."""
    size = -(-len(x) // chunks)
    starts = range(0, len(x), size)
    masks = [_masks(layer, k, x) for k in range(len(steps))]  # in the order of whole sequences
    steps = tuple((step, _viewed(operands)) for step, operands in steps)
    ends = [None if lengths is None else (lengths - t).clamp(0, size) for t in starts]
    outputs = [*x.split(size)]
    after = [tuple(state[k : k + 1] for state in states) for k in range(len(steps))]
    lanes = Lanes(x, len(steps))
    for k, c in order(len(steps), len(starts)):
        step, operands = steps[k]
        operands = operands if ends[c] is None else operands._replace(lengths=ends[c])
        span = slice(starts[c], starts[c] + size)
        factors = [mask if len(mask) == 1 else mask[span] for mask in masks[k]]
        with lanes.lane(k, c, (outputs[c], *after[k], *factors, *operands)):
            for factor in factors:
                outputs[c] = outputs[c] * factor
            outputs[c], *after_c = layer_call(
                ((step, operands),), outputs[c], *after[k], backend=backend
            )
            after[k] = tuple(after_c)
    lanes.join([*outputs, *(state for of_layer in after for state in of_layer)])
    return torch.cat(outputs), [tuple(state[0] for state in of_layer) for of_layer in after]


def order(layers: int, chunks: int) -> Iterator[tuple[int, int]]:
    """Yield layers and chunks, those that can run at the same time one after another."""
    for front in range(layers + chunks - 1):
        for layer in range(max(0, front - chunks + 1), min(layers, front + 1)):
            yield layer, front - layer


def _masks(layer: SequenceLayer, k: int, x: Tensor) -> list[Tensor]:
    """Return what dropout multiplies the input of a layer with, of all steps or of one."""
    masks, features = [], layer.features[k]
    if k and layer.dropout and layer.training:
        masks.append(F.dropout(x.new_ones(*x.shape[:2], features), layer.dropout))
    if layer.variational_dropout and layer.training:
        masks.append(F.dropout(x.new_ones(1, x.shape[1], features), layer.variational_dropout))
    return masks


def _viewed(operands: Any) -> Any:
    """Return weights as views, whose gradients are added on the stream of the caller."""
    return operands._make(x if x is None else x.view_as(x) for x in operands)


class Lanes:
    """A stream for each layer, beside that of the caller, in a CUDA graph, too.

    What one stream made and another one reads must not be overwritten before: its memory is marked.
    """

    def __init__(self, x: Tensor, count: int) -> None:
        self.home, self.streams = streams_of(x, count)
        self.events: dict[tuple[int, int], Any] = {}

    @contextmanager
    def lane(self, layer: int, chunk: int, read: Sequence[Tensor | None]) -> Iterator[None]:
        """Run a block on the stream of a layer, after the same chunk of the layer below."""
        if not self.streams:
            yield
            return
        stream = self.streams[layer]
        if chunk == 0:
            stream.wait_stream(self.home)
        if layer > 0:
            stream.wait_event(self.events[layer - 1, chunk])
        for tensor in read:
            if tensor is not None:
                tensor.record_stream(stream)
        with on_stream(stream):
            yield
        self.events[layer, chunk] = stream.record_event()

    def join(self, made: Sequence[Tensor]) -> None:
        """Make the stream of the caller wait for all layers, of which it reads some tensors."""
        for stream in self.streams:
            self.home.wait_stream(stream)
        for tensor in made if self.streams else ():
            tensor.record_stream(self.home)


def on_stream(stream: Any) -> Any:
    """Return a context in which kernels run on a stream."""
    return torch.cuda.stream(stream)


def streams_of(x: Tensor, count: int) -> tuple[Any, tuple[Any, ...]]:
    """Return the current stream of the device of a tensor, and others; none for a CPU."""
    if not x.is_cuda:
        return None, ()
    return torch.cuda.current_stream(x.device), _made(x.device, count)


@cache
def _made(device: torch.device, count: int) -> tuple[Any, ...]:
    return tuple(torch.cuda.Stream(device) for _ in range(count))
