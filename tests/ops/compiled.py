"""Triton kernels compiled without a GPU, in a process of their own.

``python -m tests.ops.compiled`` prints the registers, bytes of stack (spills) and of shared memory
of each kernel, ``--all`` of every case; ``--write`` stores those of all in ``compiled.json``.
With ``--write`` and names of cases, those of the others are not changed. ``--architecture=80``
compiles for another one than 90; what kernels use there, or with another Triton, is in
``compiled_elsewhere.json``. ``--everywhere PAGE`` compiles, all cases or those named, for five
architectures with each Triton that ``make triton`` and ``make triton-3.6.0`` installed, and writes
the page's table.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from ops.samples.edge_activation import tensors as edge_tensors
from ops.samples.kbrn_scan import tensors as network_tensors
from ops.samples.rkm_scan import CELLS
from ops.samples.rkm_scan import tensors as cell_tensors
from ops.samples.string_scan import CHAINS
from ops.samples.string_scan import tensors as string_tensors
from ops.samples.walk_aggregate import tensors as walk_tensors
from representer.nn import RKMCIFG, RKMLSTM
from representer.ops import OPS, use_backend
from representer.ops.rkm_scan import stationary
from representer.ops.string_gram import triton as grams

GOLDEN = Path(__file__).with_suffix(".json")
ELSEWHERE = Path(__file__).with_name("compiled_elsewhere.json")  # by architecture and Triton
# multiprocessors, and bytes of shared memory of a block, of A100, L4, H100, B200 and RTX 5090
DEVICES = {
    80: (108, 163 * 1024), 89: (58, 99 * 1024), 90: (132, 227 * 1024), 100: (148, 227 * 1024),
    120: (170, 99 * 1024),
}  # fmt: skip
architecture = 90
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
# bytes; loads of one bfloat16 at a time; products on tensor cores of a group of warps; barriers
USED = ("registers", "stack", "shared", "narrow loads", "products", "barriers")
SIZES = (32, 2, 640)  # time, batch, units


BEGIN, END = "<!-- compiled -->\n", "<!-- end of compiled -->\n"
ABOUT = """\
## Compiled for five architectures

All kernels of the samples, compiled without a device by two versions of Triton, for A100, L4, H100,
B200 and RTX 5090 in this order. Bytes of stack are of a thread: what does not fit into 255
registers. The last column counts kernels that need more shared memory than the device has.

```sh
PYTHONPATH=.venv/triton:tests python -m tests.ops.compiled --everywhere docs/results/gpu.md
```
"""
HEAD = (
    "| | kernels | most registers | with a stack | above 128 bytes | most bytes of stack | "
    "too much memory |"
)


class NoDevice:
    """The part of a driver that Triton needs to compile."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", architecture, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")


def gated(time: int, dtype: torch.dtype) -> tuple[dict[str, Tensor], dict[str, Any]]:
    u = torch.ones(time, *SIZES[1:], dtype=dtype)
    return {"u": u, "f": u.clone(), "c0": u[0].clone()}, {}


def string(
    name: str, options: str, dtype: torch.dtype, units: int = SIZES[2]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    made = string_tensors(CHAINS[name], (*SIZES[:2], units), options, dtype)
    return made, {"chain": CHAINS[name]}


def activation(green: str, dtype: torch.dtype) -> tuple[dict[str, Tensor], dict[str, Any]]:
    centers = torch.ones(1024, 100, dtype=dtype)
    x = torch.ones(64, 1024, dtype=dtype)
    return {"input": x, "centers": centers, "coefficients": centers.clone()}, {"green": green}


def edges(green: str, dtype: torch.dtype) -> tuple[dict[str, Tensor], dict[str, Any]]:
    return edge_tensors(256, 4, 256, 8, dtype), {"green": green}


def network(
    words: str, batch: int, units: int, dtype: torch.dtype
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    made = network_tensors((32, batch, units), words, dtype)
    return made, {"batch_statistics": "batch" in words}


def walk(parts: str, dtype: torch.dtype) -> tuple[dict[str, Tensor], dict[str, Any]]:
    return walk_tensors((500, 1000, 6, 200), parts, dtype), {}


def cell(
    name: str, options: str, dtype: torch.dtype, units: int = 640, batch: int = 2
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    made = cell_tensors(CELLS[name], (4, batch, units), options, dtype)
    return {"weight": None, **made}, {"cell": CELLS[name]}


def both(
    make: Callable[..., Any], units: int, dtype: torch.dtype, **call: Any
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    layer = make(10, units, bidirectional=True).to(dtype)
    return {"x": torch.ones(4, 2, 10, dtype=dtype)}, {"function": lambda x: layer(x, **call)[0]}


def gram(
    order: int, is_token: bool, dtype: torch.dtype
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    def function(x: Tensor) -> Tensor:  # enough pairs for large programs
        items = [*(x.detach().long()[:, :, 0] if is_token else x.detach())]
        return grams.string_gram(items, None, order, 0.5) + x.sum()

    return {"x": torch.ones(512, 4, 8, dtype=dtype)}, {"function": function}


Make = Callable[[torch.dtype], tuple[dict[str, Tensor], dict[str, Any]]]
CASES: dict[str, Make] = {
    "gated_scan": partial(gated, SIZES[0]),
    "gated_scan chunks": partial(gated, 1024),
    "string_scan second_gated": partial(string, "second_gated", "mask lengths"),
    "string_scan first_gated": partial(string, "first_gated", ""),
    "string_scan second_seen": partial(string, "second_seen", "mask lengths"),
    "string_scan second_seen 128": partial(string, "second_seen", "", units=128),
    "string_scan second_seen 1150": partial(string, "second_seen", "mask lengths", units=1150),
    "string_scan second_seen 1200": partial(string, "second_seen", "mask lengths", units=1200),
    "string_scan third_given": partial(string, "third_given", ""),
    "string_scan fifth_exact": partial(string, "fifth_exact", ""),
    "rkm_scan rkm_lstm": partial(cell, "rkm_lstm", "input"),
    "rkm_scan lstm norm": partial(cell, "lstm", "input norm hold lengths"),
    "rkm_scan rkm_gaussian": partial(cell, "rkm_gaussian", "norm hold lengths"),
    "rkm_scan stationary 300": partial(cell, "lstm", "input hold", units=300, batch=64),
    "rkm_scan stationary 640": partial(cell, "rkm_lstm", "input", units=640, batch=32),
    "rkm_scan stationary 832": partial(cell, "lstm", "input hold", units=832, batch=16),
    "rkm_scan stationary 1150": partial(cell, "rkm_cifg", "input", units=1150, batch=16),
    "rkm_scan stationary linear 300": partial(cell, "linear_kernel", "input", units=300, batch=16),
    "rkm_scan stationary ran 300": partial(cell, "ran", "input", units=300, batch=16),
    "rkm_scan stationary norm 300": partial(
        cell, "lstm", "input norm lengths", units=300, batch=64
    ),
    "rkm_scan stationary norm 1150": partial(cell, "rkm_cifg", "input norm", units=1150, batch=16),
    "rkm_scan stationary both 300": partial(both, RKMLSTM, 300),
    "rkm_scan stationary both norm 300": partial(
        both, partial(RKMCIFG, layer_norm=True, zoneout=0.1), 300, lengths=torch.tensor([4, 3])
    ),
    "rkm_scan step 1200": partial(cell, "lstm", "input norm hold lengths", units=1200),
    "rkm_scan whole rkm_lstm": partial(cell, "rkm_lstm", "input", units=64),
    "rkm_scan whole rkm_lstm 100": partial(cell, "rkm_lstm", "input", units=100),
    "rkm_scan whole rkm_cifg 128": partial(cell, "rkm_cifg", "input norm", units=128),
    "rkm_scan whole lstm norm": partial(cell, "lstm", "input norm hold lengths", units=64),
    "rkm_scan whole rkm_cifg": partial(cell, "rkm_cifg", "input", units=30),
    "rkm_scan whole both 100": partial(both, RKMLSTM, 100),
    "rkm_scan whole both norm 64": partial(
        both, partial(RKMCIFG, layer_norm=True, zoneout=0.1), 64, lengths=torch.tensor([4, 3])
    ),
    "rkm_scan whole gated_cnn": partial(cell, "gated_cnn", "input lengths"),
    "kernel_activation abs": partial(activation, "abs"),
    "kernel_activation gaussian": partial(activation, "gaussian"),
    "edge_activation abs": partial(edges, "abs"),
    "edge_activation cubic": partial(edges, "cubic"),
    "kbrn_scan 20": partial(network, "", 500, 20),
    "kbrn_scan 128": partial(network, "line norm lengths", 64, 128),
    "kbrn_scan batch 20": partial(network, "line batch", 500, 20),
    "kbrn_scan batch 128": partial(network, "batch lengths", 128, 128),
    "walk_aggregate shift": partial(walk, "shift"),
    "walk_aggregate factor gate": partial(walk, "factor gate edge"),
}
CASES |= {
    "string_gram 1 tokens": partial(gram, 1, True),
    "string_gram 2": partial(gram, 2, False),
    "string_gram 3 tokens": partial(gram, 3, True),
    "string_gram 8": partial(gram, 8, False),
}
OTHER_DTYPES = {"string_gram": (torch.float64, torch.float32)}
FAST = ("gated_scan", "rkm_scan stationary 640")  # cases of `make test`


def compiled(make: Make, op: str, dtype: torch.dtype) -> Iterator[tuple[str, Any]]:
    """Yield the kernels that a call and its gradient launch, compiled."""
    kernels = []

    def launcher(kernel: Any, grid: Any) -> Callable[..., None]:
        def launch(*arguments: Any, **options: Any) -> None:
            kernels.append((kernel.__name__, kernel.warmup(*arguments, grid=grid, **options)))

        return launch

    JITFunction.__getitem__ = launcher
    tensors, options = make(dtype)
    for name, x in tensors.items():
        if name != "statistics" and x is not None and x.is_floating_point():
            x.requires_grad_()
    function = options.pop("function", None) or OPS[op].function
    with use_backend("triton"):
        results = function(**tensors, **options)
    results = (results,) if isinstance(results, Tensor) else results
    sum(x.sum() for x in results).backward()
    yield from kernels


def usage(kernel: Any) -> dict[str, int]:
    """Return what a compiled kernel uses; its code is read for ``GOLDEN`` alone."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        shown, code = (
            subprocess.run(
                [CUOBJDUMP, option, file.name], capture_output=True, text=True, check=True
            ).stdout
            if option == "-res-usage" or is_golden()
            else ""
            for option in ("-res-usage", "-sass")
        )
    found = re.search(r"REG:(\d+) STACK:(\d+)", shown)
    assert found is not None, shown
    loads = re.findall(r"\bLDG[.\w]*", code)
    narrow = sum(bool({"U16", "S16", "U8", "S8"} & {*load.split(".")}) for load in loads)
    products = code.count("HGMMA")
    barriers = code.count("BAR.SYNC")
    numbers = *map(int, found.groups()), kernel.metadata.shared, narrow, products, barriers
    return dict(zip(USED, numbers, strict=True))


def is_golden() -> bool:
    """Return True for the architecture and the Triton of ``compiled.json``."""
    return architecture == 90 and triton.__version__ == json.loads(GOLDEN.read_text())["triton"]


def elsewhere() -> dict[str, dict[str, list[int]]]:
    """Return what the kernels use with other architectures and versions, by these."""
    stored = json.loads(ELSEWHERE.read_text("utf-8"))
    return {
        where: {k: of[i] for k, of in stored["kernels"].items() if of[i] is not None}
        for i, where in enumerate(stored["places"])
    }


def write_elsewhere(everywhere: dict[str, dict[str, list[int]]]) -> None:
    """Store what `elsewhere` returns, a line for each kernel."""
    places = sorted(everywhere)
    labels = dict.fromkeys(label for of in everywhere.values() for label in of)
    lines = [
        f"  {json.dumps(label)}: {json.dumps([everywhere[x].get(label) for x in places])}"
        for label in labels
    ]
    kernels = "{\n" + ",\n".join(lines) + "\n }"
    content = f'{{\n "places": {json.dumps(places)},\n "kernels": {kernels}\n}}\n'
    ELSEWHERE.write_text(content, "utf-8")


def compile_everywhere(page: Path | None, cases: list[str]) -> None:
    """Compile kernels for every architecture with every Triton beside the environment."""
    root, folder = Path(__file__).parents[2], Path(sys.prefix)
    for version in sorted(folder.glob("triton*")):
        for other in DEVICES:
            command = [sys.executable, "-m", __spec__.name, *(cases or ["--all"]), "--write"]
            path = os.pathsep.join(map(str, (version, root / "tests")))
            subprocess.run(
                [*command, f"--architecture={other}"], cwd=root, check=True,
                env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.DEVNULL,
            )  # fmt: skip
    write_table(page)


def write_table(page: Path | None) -> None:
    """Print the table of what is stored, and write it to a page."""
    golden = json.loads(GOLDEN.read_text("utf-8"))
    everywhere = elsewhere() | {
        f"sm_90, Triton {golden['triton']}": {
            label: [used["registers"], used["stack"], used["shared"]]
            for label, used in golden["kernels"].items()
        }
    }
    lines = [HEAD, "| --- |" + " ---: |" * 6]
    for where in sorted(everywhere, key=lambda x: (x.split()[-1], int(x[3:].partition(",")[0]))):
        used = everywhere[where]
        registers, stack, shared = zip(*used.values(), strict=True)
        most = DEVICES[int(where[3:].partition(",")[0])][1]
        cells = (
            len(used), max(registers), sum(x > 0 for x in stack), sum(x > 128 for x in stack),
            max(stack), sum(x > most for x in shared),
        )  # fmt: skip
        lines.append(f"| {where} | " + " | ".join(f"{x:,}" for x in cells) + " |")
    table = "\n".join(lines) + "\n"
    if page:
        before, _, rest = page.read_text("utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        page.write_text(f"{before}{BEGIN}{ABOUT}\n{table}{END}{after}", "utf-8")
    print(table, end="")


def not_of(cases: list[str], kernels: dict[str, Any]) -> dict[str, Any]:
    """Return the stored kernels without those of some cases."""
    starts = tuple(f"{case} {dtype}" for case in cases for dtype in ("bfloat", "float"))
    return {label: used for label, used in kernels.items() if not label.startswith(starts)}


def main(arguments: list[str]) -> None:
    global architecture
    if "--everywhere" in arguments:
        arguments.remove("--everywhere")
        pages = [x for x in arguments if x.endswith(".md")]
        cases = [x for x in arguments if x not in pages]
        compile_everywhere(Path(pages[0]) if pages else None, cases)
        return
    for option in [x for x in arguments if x.startswith("--architecture=")]:
        arguments.remove(option)
        architecture = int(option.partition("=")[2])
    stationary._DEVICE, stationary._MAJOR = DEVICES[architecture], architecture // 10
    driver.set_active(NoDevice())
    for op in OPS.values():
        if "triton" in op.backends:
            op.backends["triton"] = replace(op.backends["triton"], devices=(), missing="")
    found: dict[str, dict[str, int]] = {}
    cases = []
    for case, make in CASES.items():
        named = any(case.startswith(argument) for argument in arguments)
        chosen = "--all" in arguments or arguments == ["--write"]
        if named or chosen or (case in FAST and not arguments):
            cases.append(case)
            op = case.split()[0]
            dtypes = OTHER_DTYPES.get(op, (torch.bfloat16, torch.float32))
            for dtype in dtypes[: 2 if arguments else 1]:
                for name, kernel in compiled(make, op, dtype):
                    used, base = usage(kernel), f"{case} {str(dtype).removeprefix('torch.')} {name}"
                    labels = (base, *(f"{base} {n}" for n in range(2, 9)))  # with other constants
                    label = next(one for one in labels if found.get(one, used) == used)
                    found[label] = used
    if not is_golden():
        here, everywhere = f"sm_{architecture}, Triton {triton.__version__}", elsewhere()
        now = {
            label: [used["registers"], used["stack"], used["shared"]]
            for label, used in found.items()
        }
        everywhere[here] = now if "--all" in arguments else not_of(cases, everywhere[here]) | now
        print(json.dumps({here: now}))
        if "--write" in arguments:
            write_elsewhere(everywhere)
        return
    if "--write" in arguments:
        found = not_of(cases, json.loads(GOLDEN.read_text("utf-8"))["kernels"]) | found
    lines = [f"  {json.dumps(label)}: {json.dumps(used)}" for label, used in found.items()]
    kernels = "{\n" + ",\n".join(lines) + "\n }"
    content = f'{{\n "triton": "{triton.__version__}",\n "kernels": {kernels}\n}}'
    print(content)
    if "--write" in arguments:
        GOLDEN.write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
