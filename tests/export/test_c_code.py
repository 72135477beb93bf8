"""Layers as C files compute what the layers do."""

from __future__ import annotations

import ctypes
import random
import re
import shutil
import subprocess
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from representer import nn
from representer.errors import ArgumentError, KindError
from representer.estimators import TextClassifier
from representer.export import export_run, step_program, to_c
from representer.export.programs import TOLERANCE
from representer.models import SequenceClassifierConfig, SequenceNetwork

from .conftest import LABELS, TEXTS

LAYERS: dict[str, Callable[[], Any]] = {
    "RKM-CIFG": partial(nn.RKMCIFG, 3, 4, 2, filter_length=3, dilation=2),
    "strings": partial(nn.StringKernelRNN, 3, 4, 2, decay="state"),
    "layer norm": partial(nn.RKMLSTM, 3, 4, layer_norm=True, batch_first=True),
    **{name: partial(build, 3, 4) for name, build in nn.TABLE1.items()},
    "RAN": partial(nn.RAN, 3, 4),
    "RKM": partial(nn.RKM, 3, 4),
    "RKM gaussian": partial(nn.RKM, 3, 4, q="gaussian"),
    "several lengths": partial(nn.CNN, 3, 4, filter_length={1: 2, 3: 2}),
    "stride": partial(nn.CNN, 3, 4, stride=2, filter_length=2),
    "no feedback": partial(nn.LinearKernelRNN, 3, 4, feedback=False, output_gate=False),
    "exact strings": partial(nn.StringKernelRNN, 3, 4, decay=0.5, normalized="exact"),
    "highway": partial(nn.StringKernelRNN, 4, 4, highway=True),
    "KBRN": partial(nn.KBRN, 3, 4, normalize=False),
    "KBRN, running statistics": lambda: with_statistics(nn.KBRN(3, 4)),
    "wavelets, stride": partial(nn.CNN, 3, 4, filters="wavelet", filter_length=8, stride=2),
    "wavelets, dilation": partial(
        nn.LinearKernelRNN, 3, 4, filters="wavelet", filter_length=4, dilation=2
    ),
    "two directions": partial(nn.RKMCIFG, 3, 4, bidirectional=True, filter_length=2),
    "two directions, three layers": partial(nn.StringKernelRNN, 3, 4, 3, bidirectional=True),
    "two directions, stride": partial(
        nn.CNN, 3, 4, stride=2, filter_length=2, bidirectional=True, batch_first=True
    ),
    "two directions, KBRN": lambda: with_statistics(nn.KBRN(3, 4, bidirectional=True)),
    "activation": partial(nn.KernelActivation, 3),
    "edges": partial(nn.KernelLinear, 3, 4),
    "edges gaussian": partial(nn.KernelLinear, 3, 4, green="gaussian"),
    "edges cubic": partial(nn.KernelLinear, 3, 4, green="cubic"),
    "KAN": partial(nn.KAN, [3, 5, 4]),
}  # fmt: skip


def with_statistics(layer: Any) -> Any:
    """Return a layer with running statistics of random sequences."""
    with torch.no_grad():
        for _ in range(30):
            layer(torch.randn(40, 32, layer.input_size))
    return layer


COMPILERS = [own for own in ("gcc", "clang") if shutil.which(own)]
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic"]
FAST = ("RKM-CIFG", "strings", "wavelets, stride", "two directions, stride", "edges")
CASES = [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in LAYERS]
needs_compiler = pytest.mark.skipif(not COMPILERS, reason="no compiler of C")


class Compiled:
    """A compiled file, and the sizes of its header."""

    def __init__(self, path: Path, compiler: str = "") -> None:
        library = path.with_suffix(".so")
        words = [compiler or COMPILERS[0], *STRICT, "-O1", "-shared", "-fPIC"]
        subprocess.run([*words, str(path), "-o", str(library), "-lm"], check=True)
        self.functions, self.name = ctypes.CDLL(str(library)), path.stem
        sizes = re.findall(
            r"#define \w+_(INPUT|OUTPUT|STATE|WORK) (\d+)", path.with_suffix(".h").read_text()
        )
        self.sizes = {key: int(size) for key, size in sizes}
        self.state = np.zeros(self.sizes.get("STATE", 0) + 1, np.float32)
        self.start()

    def start(self) -> None:
        """Set the state before a sequence; a layer of two directions has none."""
        if "WORK" not in self.sizes:
            self.call("start", self.state)

    def call(self, what: str, *arguments: Any) -> None:
        pointer = ctypes.POINTER(ctypes.c_float)
        getattr(self.functions, f"{self.name}_{what}")(
            *(own if isinstance(own, int) else own.ctypes.data_as(pointer) for own in arguments)
        )

    def run(self, x: Any) -> np.ndarray:
        """Return the outputs of steps, after those before."""
        x = np.ascontiguousarray(x, np.float32)
        steps = x.size // self.sizes["INPUT"]
        output = np.zeros((steps, self.sizes["OUTPUT"]), np.float32)
        work = np.zeros(self.sizes.get("WORK", 0) * steps + 1, np.float32)
        self.call("run", x, steps, work if "WORK" in self.sizes else self.state, output)
        return output


def whole(layer: Any, x: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        if not hasattr(layer, "batch_first"):  # an activation
            return layer(x).numpy()
        found = layer(x[None] if layer.batch_first else x[:, None])[0].numpy()
        return found.reshape(-1, found.shape[-1])


def test_what_torch_deprecates_is_not_shown_to_users(tmp_path: Path):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        to_c(nn.RKMCIFG(3, 4).eval(), tmp_path / "layer.c")
    assert not shown


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_a_c_file_computes_the_outputs_of_a_layer(name: str, tmp_path: Path):
    torch.manual_seed(0)
    layer = LAYERS[name]().eval()
    written = to_c(layer, tmp_path / "layer.c")
    compiled = Compiled(tmp_path / "layer.c")
    for steps in (1, 7, 40):
        x = torch.randn(steps * getattr(layer, "stride", 1), getattr(layer, "input_size", 3))
        compiled.start()
        found, wanted = compiled.run(x), whole(layer, x)
        np.testing.assert_allclose(found, wanted, atol=TOLERANCE * max(1, np.abs(wanted).max()))
    assert written.weights < (40_000 if "statistics" in name or "KBRN" in name else 10_000)
    assert written.error == 0
    assert not re.search(r"\b(malloc|calloc|realloc|free)\b", (tmp_path / "layer.c").read_text())


@needs_compiler
def test_a_c_file_reads_a_sequence_in_any_parts(tmp_path: Path):
    layer = nn.RKMLSTM(3, 4, filter_length=2).eval()
    to_c(layer, tmp_path / "layer.c")
    compiled, draw = Compiled(tmp_path / "layer.c"), random.Random(0)
    x = torch.randn(12, 3)
    for _ in range(100):
        compiled.start()
        cuts = sorted(draw.sample(range(1, 12), draw.randint(0, 11)))
        parts = [compiled.run(part) for part in np.split(x.numpy(), cuts)]
        np.testing.assert_allclose(np.concatenate(parts), whole(layer, x), atol=TOLERANCE)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_sanitizers_find_nothing_in_the_example(compiler: str, tmp_path: Path):
    layer = nn.StringKernelRNN(3, 4, 2).eval()
    to_c(layer, tmp_path / "layer.c")
    checks = {
        "gcc": ["-fsanitize=address,undefined"],
        "clang": ["-fsanitize=undefined", "-fsanitize-trap=all"],  # without its library
    }
    words = [compiler, *STRICT, "-O1", "-g", *checks[compiler], "-DLAYER_MAIN"]
    program, x = tmp_path / "program", torch.randn(9, 3)
    subprocess.run([*words, str(tmp_path / "layer.c"), "-o", str(program), "-lm"], check=True)
    text = " ".join(map(str, x.flatten().tolist()))
    done = subprocess.run([str(program)], input=text, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    found = np.array([line.split() for line in done.stdout.splitlines()], dtype=float)
    np.testing.assert_allclose(found, whole(layer, x), atol=TOLERANCE)


@needs_compiler
def test_weights_of_8_bits_have_the_error_that_is_returned(tmp_path: Path):
    torch.manual_seed(0)
    layer = nn.RKMCIFG(40, 32).eval()
    exact, small = to_c(layer, tmp_path / "a.c"), to_c(layer, tmp_path / "b.c", int8=True)
    assert small.weights < 0.35 * exact.weights
    assert 0 < small.error < float(layer.weight_ih_l0.detach().abs().max()) / 127
    x = torch.randn(20, 40).numpy()
    a, b = (Compiled(tmp_path / f"{name}.c").run(x) for name in "ab")
    assert TOLERANCE < np.abs(a - b).max() < 0.05


@needs_compiler
@pytest.mark.parametrize("pooling", ["mean", "attention"])
def test_a_network_of_texts_reads_a_word_at_a_time(pooling: str, tmp_path: Path):
    torch.manual_seed(0)
    config = SequenceClassifierConfig(
        50, 3, "rkm-cifg", embedding_size=5, hidden_size=4, pooling=pooling, filter_length=2
    )
    network = SequenceNetwork(config).eval()
    to_c(network, tmp_path / "text.c")
    compiled, tokens = Compiled(tmp_path / "text.c"), torch.randint(1, 50, (1, 9))
    output = np.zeros(3, np.float32)
    compiled.start()
    compiled.call("run", tokens.float().numpy().ravel(), 9, compiled.state, output)
    with torch.no_grad():
        np.testing.assert_allclose(output, network(tokens, torch.tensor([9]))[0], atol=TOLERANCE)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (
            torch.nn.LSTM(2, 3),
            KindError,
            "model is LSTM; expected a recurrent layer of one direction, a",
        ),
        (nn.RKMLSTM(2, 3).train(), KindError, "in training mode"),
        (nn.RKMLSTM(2, 3, bidirectional=True).train(), KindError, "in training mode"),
        (
            SequenceNetwork(
                SequenceClassifierConfig(
                    50, 3, "rkm-cifg", embedding_size=5, hidden_size=4, bidirectional=True
                )
            ).eval(),
            ArgumentError,
            "reads later words.; expected one of one direction",
        ),
    ],
)
def test_models_without_a_c_file_are_named(model: Any, error: Any, message: str, tmp_path: Path):
    with pytest.raises(error, match=message):
        to_c(model, tmp_path / "layer.c")
    with pytest.raises(ArgumentError, match="a name that C takes"):
        to_c(nn.RKMLSTM(2, 3).eval(), tmp_path / "my layer.c")
    assert not list(tmp_path.iterdir())


def test_a_run_as_c_says_what_it_lacks(tmp_path: Path):
    model = TextClassifier(
        answer="network", cell="rkm-cifg", hidden_size=4, embedding_size=4, epochs=1,
        random_state=0, verbose=0,
    )  # fmt: skip
    found = export_run(model.fit(TEXTS, LABELS), tmp_path, "c", int8=True)
    assert found.others == ("model.c", "model.h", "preprocessing.json")
    assert found.left_out == ""
    assert found.c is not None
    assert found.c.work < 4096


STEPS: dict[str, Callable[[], Any]] = {
    "layer": partial(nn.RKMCIFG, 3, 4, filter_length=2),
    "texts": lambda: SequenceNetwork(
        SequenceClassifierConfig(50, 3, "rkm-cifg", embedding_size=5, hidden_size=4)
    ),
    "KAN": partial(nn.KAN, [3, 4]),
    "strings": partial(nn.StringKernelRNN, 3, 4),
    "without memory": partial(nn.CNN, 3, 4),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_a_program_of_torch_alone(name: str):
    torch.manual_seed(0)
    model = STEPS[name]().eval()
    program = step_program(model)
    assert not [node for node in program.graph.nodes if "representer" in str(node.target)]
    assert program.example_inputs is not None
    (first, *state), _ = program.example_inputs
    assert all(x.numel() for x in state)  # LiteRT knows neither empty tensors
    assert not [node for node in program.graph.nodes if "split" in str(node.target)]  # nor one part
    steps = torch.randint(1, 50, (5,)) if name == "texts" else torch.randn(5, *first.shape)
    results = []
    with torch.no_grad():
        for step in steps:
            output, *state = program.module()(step.reshape(first.shape), *state)
            results.append(output)
        if name == "texts":
            torch.testing.assert_close(output, model(steps[None], torch.tensor([5])))
        else:
            x = steps.reshape(5, 1, 3)
            wanted = model(x) if name == "KAN" else model(x)[0]
            torch.testing.assert_close(torch.cat([y.reshape(1, 1, -1) for y in results]), wanted)
