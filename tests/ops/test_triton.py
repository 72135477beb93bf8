"""The Triton kernels, without a GPU: interpreted, and compiled for sm_90."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from ops.samples.kbrn_scan import tensors as network_tensors
from ops.samples.rkm_scan import CELLS
from ops.samples.rkm_scan import tensors as cell_tensors
from ops.samples.string_scan import CHAINS, tensors
from representer import nn
from representer.errors import BackendError
from representer.functional import StringChain
from representer.ops import OPS, gated_scan, gpu, use_backend
from representer.ops.string_scan.reference import Operands

ROOT = Path(__file__).parents[2]
FOLDER = Path(sys.prefix) / "triton"  # an installation for these tests alone, see the Makefile
GOLDEN = json.loads(Path(__file__).with_name("compiled.json").read_text(encoding="utf-8"))
MOST_REGISTERS, MOST_SHARED = 255, 227 * 1024  # of a thread, and of a block, on sm_90
# matrices of more than 64 units fill all registers of a multiprocessor; of 1150 units with the
# weights on the chip, some addresses are spilled before the loop over steps, which reads none
SPILL = (
    "rkm_scan stationary 1150 bfloat16 _forward",
    "rkm_scan stationary norm 1150 bfloat16 _forward",
    "rkm_scan stationary norm 300 float32 _backward",  # 40 bytes
    "rkm_scan stationary both norm 300 float32 _backward",  # 32 bytes
    "rkm_scan stationary 1150 float32 _forward",  # 40 bytes
    "rkm_scan stationary norm 1150 float32",  # 32 and 128 bytes
    "string_scan second_seen 1150",  # 160 and 288 bytes in float32; 1,080 bytes in 16 bits
    "rkm_scan stationary linear 300 float32",  # 24 and 32 bytes
    "rkm_scan lstm norm float32 _forward",  # 16 bytes
    "rkm_scan lstm norm bfloat16 _backward",  # 24 bytes
    "rkm_scan rkm_gaussian bfloat16 _backward",  # 24 bytes
    "rkm_scan whole rkm_lstm 100",
    "rkm_scan whole both 100",
    "rkm_scan whole rkm_cifg 128",
    "string_scan second_seen bfloat16",
)
NEEDS_TRITON = pytest.mark.skipif(
    not FOLDER.exists() and find_spec("triton") is None, reason="Triton is not installed"
)
ALL = [(), pytest.param(("--all",), marks=[pytest.mark.slow, pytest.mark.sweep])]


def run(
    module: str, *arguments: str, folder: Path = FOLDER, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a module with Triton in its path."""
    path = os.pathsep.join(filter(None, (str(folder), "tests", os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path} | environment, capture_output=True, text=True,
        timeout=1800, check=False,
    )  # fmt: skip


@NEEDS_TRITON
@pytest.mark.parametrize("options", ALL)
def test_interpreted_kernels_match_the_definition(options: tuple[str, ...]):
    done = run("tests.ops.interpreted", *options, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr[-4000:]
    assert int(done.stdout) >= (100 if options else 7)


@pytest.mark.slow
@NEEDS_TRITON
@pytest.mark.parametrize("options", ALL)
def test_compiled_kernels_use_no_more_of_a_multiprocessor_than_recorded(
    options: tuple[str, ...], tmp_path: Path
):
    done = run("tests.ops.compiled", *options, TRITON_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr[-4000:]
    compiled = json.loads(done.stdout)
    assert compiled["kernels"].keys() <= GOLDEN["kernels"].keys()
    assert not options or compiled["kernels"].keys() == GOLDEN["kernels"].keys()
    for label, used in compiled["kernels"].items():
        assert used["stack"] == 0 or label.startswith(SPILL), f"{label} spills registers"
        assert used["registers"] <= MOST_REGISTERS
        assert used["shared"] <= MOST_SHARED
        if compiled["triton"] == GOLDEN["triton"]:
            recorded = GOLDEN["kernels"][label]
            products, most = used.pop("products"), {**recorded}
            assert products >= most.pop("products"), f"{label} lost products on tensor cores"
            # the threads of kbrn_scan exchange h through memory, which rests on these barriers
            barriers, needed = used.pop("barriers"), most.pop("barriers")
            assert barriers >= needed or not label.startswith("kbrn"), f"{label} lost barriers"
            assert all(used[name] <= most[name] for name in used), f"{label}: {used}"


ELSEWHERE = json.loads(Path(__file__).with_name("compiled_elsewhere.json").read_text("utf-8"))
PLACES = ELSEWHERE["places"]
# what runs most often: a cell in registers and one with weights on the chip, a chain, edges
OFTEN = (
    "rkm_scan whole rkm_lstm 100", "rkm_scan stationary 300", "string_scan second_seen 128",
    "edge_activation abs",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_kernels_compile_elsewhere_and_spill_no_more_than_recorded(place: str, tmp_path: Path):
    architecture, _, version = place.removeprefix("sm_").partition(", Triton ")
    folder = FOLDER if version == GOLDEN["triton"] else FOLDER.with_name(f"triton-{version}")
    if not folder.exists():
        pytest.skip(f"Triton {version} is not in {folder}: make triton-{version}")
    options = {"folder": folder, "TRITON_CACHE_DIR": str(tmp_path)}
    done = run("tests.ops.compiled", *OFTEN, f"--architecture={architecture}", **options)
    assert done.returncode == 0, done.stderr[-4000:]
    compiled, i = json.loads(done.stdout)[place], PLACES.index(place)
    assert {label.split()[0] for label in compiled} == {case.split()[0] for case in OFTEN}
    for label, (_, stack, _) in compiled.items():
        assert stack <= ELSEWHERE["kernels"][label][i][1], f"{label} spills registers"


def test_all_kernels_are_recorded_for_five_architectures_and_two_versions():
    places = {f"sm_{a}, Triton {t}" for a in (80, 89, 90, 100, 120) for t in ("3.6.0", "3.9.0")}
    assert {*PLACES} == places - {"sm_90, Triton 3.9.0"}  # which is in compiled.json
    for i, place in enumerate(PLACES):
        labels = {label for label, used in ELSEWHERE["kernels"].items() if used[i] is not None}
        missing = {x for x in GOLDEN["kernels"].keys() - labels if not x[-1].isdigit()}
        assert not missing, f"{place}: {missing}"  # numbers are those with other constants


@NEEDS_TRITON
@pytest.mark.slow
def test_interpreted_kernels_pass_the_tests_of_every_backend():
    some = "-triton and (length_0 or empty_batch or modified)"
    done = run(
        "pytest", "-q", "-n", "0", "tests/ops/test_ops.py", "-k", some,
        TRITON_INTERPRET="1",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize("op", [op for op in OPS.values() if "triton" in op.backends])
def test_triton_is_never_chosen_for_tensors_on_the_cpu(op):
    reason = op.backends["triton"].unavailable_reason("cpu", None)
    assert reason == (gpu.MISSING or "runs on cuda, not on cpu")


def operands(order: int, decay: str, dtype: torch.dtype) -> Any:
    chain = StringChain(order, decay=decay)  # pyright: ignore[reportArgumentType]
    made = tensors(chain, (5, 3, 4), "", dtype)
    fields = (
        dict.fromkeys(Operands._fields) | made | {"chain": chain, "reverse": False, "keep": True}
    )
    return Operands(**fields)


@pytest.mark.parametrize(("decay", "dtype", "expected"), [
    ("gate", torch.bfloat16, "triton"),
    ("state_gate", torch.float32, "triton"),
    ("gate", torch.float8_e5m2, "reference"),
])  # fmt: skip
def test_a_call_on_a_gpu_runs_on_triton_unless_no_kernel_takes_it(
    decay: str, dtype: torch.dtype, expected: str, monkeypatch
):
    op = OPS["string_scan"]
    there = replace(op.backends["triton"], missing="", devices=("cuda",))
    monkeypatch.setitem(op.backends, "triton", there)
    p = operands(2, decay, torch.float32)
    p = p._replace(x=p.x.to(dtype))
    assert op.choose(None, "cuda", p) == expected
    reasons = op.explain("cuda", p)
    assert bool(reasons["triton"]) == (expected != "triton")
    assert reasons["cpp"]
    if reasons["triton"]:
        with pytest.raises(BackendError, match=reasons["triton"]):
            op.choose("triton", "cuda", p)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["first_gated", "second_exact", "third_summed"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_long_sequences_on_a_gpu_match_the_definition_bit_for_bit_each_time(
    name: str, dtype: torch.dtype
):
    chain = CHAINS[name]
    made = tensors(chain, (300, 3, 650), "mask lengths", torch.float64)
    rounded = {n: x.to(dtype) if x.is_floating_point() else x for n, x in made.items()}
    exact = {n: x.double() if x.is_floating_point() else x for n, x in rounded.items()}
    expected = OPS["string_scan"].definition(**exact, chain=chain)
    placed = {n: x.cuda() for n, x in rounded.items()}
    first, *others = (
        OPS["string_scan"].function(**placed, chain=chain, backend="triton") for _ in range(20)
    )
    share = {torch.bfloat16: 2e-2, torch.float16: 5e-3, torch.float32: 1e-4}[dtype]
    for result, wanted in zip(first, expected, strict=True):
        difference = (result.double().cpu() - wanted).abs().max()
        assert difference <= share * wanted.abs().max()
    for other in others:
        assert all(map(torch.equal, other, first))


@pytest.mark.gpu
@pytest.mark.parametrize("size", [(300, 20, 300), (200, 32, 640), (100, 16, 1150), (300, 20, 40)])
@pytest.mark.parametrize("name", ["lstm", "rkm_cifg", "linear_kernel_gated"])
def test_cells_on_a_gpu_match_the_definition_bit_for_bit_each_time(
    name: str, size: tuple[int, int, int]
):
    cell, op = CELLS[name], OPS["rkm_scan"]
    made = cell_tensors(cell, size, "input", torch.float64)
    rounded = {n: x.bfloat16() for n, x in made.items()}

    def evaluate(function: Any, tensors: dict[str, torch.Tensor], **options: Any) -> list[Any]:
        leaves = {n: x.clone().requires_grad_() for n, x in tensors.items()}
        results = function(**leaves, cell=cell, **options)
        loss = sum(x.square().sum() for x in results)
        found = torch.autograd.grad(loss, list(leaves.values()))
        return [x.detach() for x in (*results, *found)]

    expected = evaluate(op.definition, {n: x.double() for n, x in rounded.items()})
    placed = {n: x.cuda() for n, x in rounded.items()}
    first, *others = (evaluate(op.function, placed, backend="triton") for _ in range(20))
    for result, wanted in zip(first, expected, strict=True):
        assert (result.double().cpu() - wanted).abs().max() <= 4e-2 * wanted.abs().max()
    for other in others:
        assert all(map(torch.equal, other, first))


@pytest.mark.gpu
@pytest.mark.parametrize("words", ["line", "line batch lengths"])
def test_learned_activations_on_a_gpu_match_the_definition_bit_for_bit_each_time(words: str):
    op, options = OPS["kbrn_scan"], {"green": "gaussian", "batch_statistics": "batch" in words}
    exact = network_tensors((40, 300, 20), words, torch.float64)
    expected = op.definition(**exact, **options)
    placed = {n: x.cuda().float() if x.is_floating_point() else x.cuda() for n, x in exact.items()}
    first, *others = (op.function(**placed, **options, backend="triton") for _ in range(20))
    # the definition returns the statistics of the batch, too, if there are any
    for result, wanted in zip(first, expected[: len(first)], strict=True):
        assert (result.double().cpu() - wanted).abs().max() <= 1e-3 * wanted.abs().max()
    for other in others:
        assert all(map(torch.equal, other, first))


@pytest.mark.gpu
def test_chunks_of_a_scan_on_a_gpu_match_the_definition_bit_for_bit_each_time():
    draw = torch.Generator().manual_seed(0)
    u, f = torch.rand(2, 1100, 3, 40, generator=draw, dtype=torch.float64)
    lengths = torch.tensor([700, 0, 1100])
    exact = gated_scan(u, f, lengths=lengths, reverse=True)
    placed = u.cuda().float(), f.cuda().float()
    first, *others = (
        gated_scan(*placed, lengths=lengths.cuda(), reverse=True, backend="triton")
        for _ in range(20)
    )
    for result, wanted in zip(first, exact, strict=True):
        assert (result.double().cpu() - wanted).abs().max() <= 1e-4 * wanted.abs().max()
    for other in others:
        assert all(map(torch.equal, other, first))


@pytest.mark.gpu
def test_a_captured_graph_replays_a_scan_on_new_inputs():
    u, f = torch.randn(50, 4, 70, device="cuda"), torch.rand(70, device="cuda")
    gated_scan(u, f, backend="triton")  # compiles the kernel
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        states, _ = gated_scan(u, f, backend="triton")
    u.copy_(torch.randn_like(u))
    graph.replay()
    assert torch.equal(states, gated_scan(u, f, backend="triton")[0])


def of_a_layer(layer: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """Return output, state and gradients of a call."""
    output, state = layer(x)
    results = [output, *state]
    total = torch.stack([y.square().mean() for y in results]).sum()
    return [*results, *torch.autograd.grad(total, [x, *layer.parameters()])]


@pytest.mark.gpu
@pytest.mark.parametrize("units", [100, 300, 1056])
def test_both_directions_on_a_gpu_are_those_of_the_reference_and_equal_each_time(units: int):
    layer = nn.RKMLSTM(20, units, bidirectional=True).cuda()
    x = torch.randn(60, 20, 20, device="cuda", requires_grad=True)
    with use_backend("reference"):
        expected = of_a_layer(layer, x)
    first, *others = (of_a_layer(layer, x) for _ in range(10))
    for result, wanted in zip(first, expected, strict=True):
        assert (result - wanted).abs().max() <= 1e-3 * wanted.abs().max()
    for other in others:
        assert all(map(torch.equal, other, first))


@pytest.mark.gpu
def test_a_wavefront_on_a_gpu_has_the_results_of_layer_after_layer_also_from_a_graph(monkeypatch):
    layer = nn.RKMCIFG(20, 64, 3, layer_norm=True).cuda()
    x = torch.randn(500, 16, 20, device="cuda", requires_grad=True)
    expected = of_a_layer(layer, x)
    monkeypatch.setenv("REPRESENTER_WAVEFRONT", "8")
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):  # compiles the kernels
        ways = [of_a_layer(layer, x) for _ in range(20)]
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph):
        ways.append(of_a_layer(layer, x))
    graph.replay()
    for way in ways:
        for result, wanted in zip(way, expected, strict=True):
            assert (result - wanted).abs().max() <= 1e-4 * wanted.abs().max()


@pytest.mark.gpu
def test_a_layer_compiled_to_reduce_overhead_has_the_results_of_the_layer():
    layer = nn.RKMLSTM(20, 64).cuda()
    x = torch.randn(50, 16, 20, device="cuda")
    compiled = torch.compile(layer, mode="reduce-overhead")
    for _ in range(3):
        output, _ = compiled(x)
        torch.testing.assert_close(output, layer(x)[0])
