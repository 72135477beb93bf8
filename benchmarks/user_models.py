"""Random models of users with layers of this library inside, and their export to ONNX."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim

from representer import nn as layers
from representer.export.programs import interface, onnx_run

WORDS, FEATURES, WIDTH, CLASSES = 30, 4, 6, 3
SIZES = ((6, 3), (2, 5), (11, 2), (25, 4))  # time, batch; the first is that of the export
RECURRENT = {
    "RKMLSTM": layers.RKMLSTM, "RKMCIFG": layers.RKMCIFG, "RAN": layers.RAN, "RKM": layers.RKM,
    "LinearKernelRNN": layers.LinearKernelRNN, "GatedCNN": layers.GatedCNN, "CNN": layers.CNN,
    "StringKernelRNN": layers.StringKernelRNN, "NgramLSTM": layers.NgramLSTM,
    "KBRN": partial(layers.KBRN, normalize=False),
}  # fmt: skip
WITHOUT_FILTERS = "StringKernelRNN", "KBRN"
SHAPES = "one input", "two inputs", "one layer for both inputs", "two layers"


class UserModel(nn.Module):
    """An embedding, maybe a convolution, layers of this library and a head.

    Args:
        seed: What is drawn depends on it alone.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.shape = SHAPES[seed % len(SHAPES)]
        self.name = draw.choice([*RECURRENT])
        self.pooling = draw.choice(("last", "mean", "steps"))
        self.has_lengths = draw.random() < 0.5
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 3, padding=1) if draw.random() < 0.5 else None
        options: dict[str, Any] = {
            "num_layers": draw.randint(1, 2),
            "bidirectional": draw.random() < 0.4,
        }
        if self.name not in WITHOUT_FILTERS:
            options["filter_length"] = draw.randint(1, 3)
        width = WIDTH + (FEATURES if self.shape == "two inputs" else 0)
        build = partial(RECURRENT[self.name], hidden_size=5, batch_first=True, **options)
        self.layer = build(width)
        self.second = build(WIDTH) if self.shape == "two layers" else self.layer
        self.activation = layers.KernelActivation(outputs(options)) if draw.random() < 0.3 else None
        head = layers.KernelLinear if draw.random() < 0.3 else nn.Linear
        self.head = head(outputs(options), CLASSES)

    def forward(self, tokens: Tensor, *others: Tensor) -> Tensor:
        *more, lengths = others if self.has_lengths else (*others, None)
        x = self.read(tokens)
        if self.shape == "two inputs":
            x = torch.cat((x, more[0]), -1)
        y = self.pooled(self.layer(x, lengths=lengths)[0])
        if self.shape in SHAPES[2:]:
            y = y * self.pooled(self.second(self.read(more[0]))[0])
        y = y if self.activation is None else self.activation(y)
        return self.head(y)

    def read(self, tokens: Tensor) -> Tensor:
        """Return the vectors of words, maybe after the convolution."""
        x = self.embedding(tokens)
        return x if self.convolution is None else self.convolution(x.mT).relu().mT

    def pooled(self, y: Tensor) -> Tensor:
        """Return the outputs of all steps, of the last, or their mean."""
        return {"last": lambda: y[:, -1], "mean": lambda: y.mean(1), "steps": lambda: y}[
            self.pooling
        ]()

    def inputs(self, time: int, batch: int) -> tuple[Tensor, ...]:
        """Return random inputs."""
        tokens = torch.randint(WORDS, (2, batch, time))
        second = {"one input": (), "two inputs": (torch.randn(batch, time, FEATURES),)}
        lengths = (torch.randint(1, time + 1, (batch,)),) if self.has_lengths else ()
        return tokens[0], *second.get(self.shape, (tokens[1],)), *lengths


def outputs(options: dict[str, Any]) -> int:
    """Return the width of a layer of 5 units."""
    return 5 * (1 + options["bidirectional"])


def difference(seed: int) -> float:
    """Export a random model with dynamic batch and time; return its largest difference in ONNX.

    Differences are relative to the largest output if that is above 1.
    """
    model = UserModel(seed).eval()
    inputs = model.inputs(*SIZES[0])
    sizes = tuple(dict.fromkeys(range(min(x.dim(), 2)), Dim.DYNAMIC) for x in inputs)
    shapes = {"tokens": sizes[0]} | ({"others": sizes[1:]} if sizes[1:] else {})
    with torch.no_grad():
        written = torch.onnx.export(
            model, inputs, dynamo=True, verbose=False, dynamic_shapes=shapes
        )
        assert written is not None
        run, worst = onnx_run(written.model_proto.SerializeToString(), threads=1), 0.0
        for time, batch in SIZES:
            given = model.inputs(time, batch)
            wanted = model(*given).numpy()
            apart = np.abs(np.asarray(run(*given)[0]) - wanted).max()
            worst = max(worst, float(apart / max(1.0, np.abs(wanted).max())))
    return worst


def split_difference(layer: Any, run: Any, count: int, steps: int = 24) -> float:
    """Return the largest difference of a sequence read in random parts from the whole.

    Args:
        layer: A layer of one direction.
        run: A function from a part and a state to outputs and the state after it.
        count: Number of random splits.
        steps: Length of the sequence.
    """
    described, draw, worst = interface(layer, state=True), random.Random(0), 0.0
    stride = getattr(layer, "stride", 1)  # a part has whole strides
    most = len(range(stride, steps, stride))
    x, *state = described.example({"time": steps, "batch": 1})
    zeros = [np.zeros_like(part.numpy()) for part in state]
    with torch.no_grad():
        whole = layer(x)[0].numpy()
    for _ in range(count):
        cuts = sorted(draw.sample(range(stride, steps, stride), draw.randint(0, most)))
        results, state = [], zeros
        for part in np.split(x.numpy(), cuts):
            output, *state = run(part, *state)
            results.append(np.asarray(output))
        worst = max(worst, float(np.abs(np.concatenate(results) - whole).max()))
    return worst
