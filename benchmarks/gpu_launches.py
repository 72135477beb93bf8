"""Count the kernels that a call of a layer launches on a GPU, without one.

``python benchmarks/gpu_launches.py`` prints a table; it needs Triton, which ``make triton``
installs in ``.venv/triton``. ``--times`` shows the microseconds of the host in a short call
instead. ``--before DIR`` counts those of the package in another source folder, too, such as that
of ``git archive COMMIT src | tar x -C DIR``; ``--page PAGE`` replaces the table on a page.

Launches of Triton are counted and not run. Other kernels are operations of torch that neither
return a view nor memory that is not written, on tensors of the CPU, which takes as many.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).parents[1]
STEPS, BATCH = 50, 4
BEGIN, END = "<!-- launches -->\n", "<!-- end of launches -->\n"
VIEWS = {
    "_reshape_alias", "_unsafe_view", "alias", "as_strided", "detach", "empty", "empty_like",
    "empty_strided", "expand", "flatten", "mT", "new_empty", "permute", "promote_types", "select",
    "slice", "split", "split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold",
    "unflatten", "unsqueeze", "view",
}  # fmt: skip
PERHAPS = {"contiguous", "reshape", "to"}  # views of what already is as asked for
ABOUT = """\
## Launches

What one call of a layer launches, counted without a device: kernels of Triton + other kernels, such
as products in cuBLAS, copies and sums. Sequences have 50 steps. *Before* is commit 05202d5a,
whose `src` is in the folder `before`:

```sh
PYTHONPATH=.venv/triton python benchmarks/gpu_launches.py --before before/src \\
  --page docs/results/gpu.md
```
"""


def layers() -> dict[str, tuple[Any, Callable[[], tuple[Any, ...]]]]:
    """Return the layers by what they are, each with what makes its input."""
    import torch

    from representer import kernels, nn

    def sequences(features: int, batch: int = BATCH) -> Callable[[], tuple[Any, ...]]:
        return lambda: (torch.randn(STEPS, batch, features),)

    def halves(features: int, batch: int = BATCH) -> Callable[[], tuple[Any, ...]]:
        return lambda: (torch.randn(STEPS, batch, features).bfloat16(),)

    def in_chunks(layer: Any) -> Callable[..., Any]:
        def call(x: torch.Tensor) -> Any:
            with patch.dict(os.environ, {"REPRESENTER_WAVEFRONT": "8"}):
                return layer(x)

        return call

    def several(count: int, features: int) -> Callable[[], tuple[Any, ...]]:
        return lambda: ([0.1 * torch.randn(STEPS, features) for _ in range(count)],)

    def texts() -> tuple[Any, ...]:
        return ([torch.randint(0, 30, (STEPS,)) for _ in range(100)],)

    def graphs() -> tuple[Any, ...]:
        edges = torch.randint(0, 60, (2, 130))
        return torch.randn(60, 9), edges, torch.randn(130, 6), torch.arange(60) // 20, 3

    return {
        "RKM-LSTM, 64 units, float32": (nn.RKMLSTM(20, 64), sequences(20)),
        "RKM-LSTM, 100 units, float32": (nn.RKMLSTM(10, 100), sequences(10)),
        "RKM-CIFG, 128 units, layer norm, float32": (
            nn.RKMCIFG(20, 128, layer_norm=True), sequences(20),
        ),
        "RKM-LSTM, 300 units, float32": (nn.RKMLSTM(20, 300), sequences(20)),
        "RKM-LSTM, 650 units, float32": (nn.RKMLSTM(20, 650), sequences(20)),
        "RKM-LSTM, 800 units, float32": (nn.RKMLSTM(20, 800), sequences(20)),
        "RKM-LSTM, 1,150 units, float32": (nn.RKMLSTM(20, 1150), sequences(20)),
        "RKM-LSTM, 650 units, 16 bits": (nn.RKMLSTM(20, 650).bfloat16(), halves(20)),
        "RKM-LSTM, 650 units, 16 bits, 128 sequences": (
            nn.RKMLSTM(20, 650).bfloat16(), halves(20, 128),
        ),
        "RKM-LSTM, 300 units, layer norm, 16 bits": (
            nn.RKMLSTM(20, 300, layer_norm=True).bfloat16(), halves(20),
        ),
        "RKM-CIFG, 1,150 units, layer norm, 16 bits": (
            nn.RKMCIFG(20, 1150, layer_norm=True).bfloat16(), halves(20),
        ),
        "RKM-LSTM, 100 units, both directions": (
            nn.RKMLSTM(10, 100, bidirectional=True), sequences(10),
        ),
        "RKM-LSTM, 100 units, both directions, lengths": (
            partial(
                nn.RKMLSTM(10, 100, bidirectional=True),
                lengths=torch.arange(STEPS, STEPS - BATCH, -1),
            ),
            sequences(10),
        ),
        "RKM-LSTM, 100 units, both directions, zoneout": (
            nn.RKMLSTM(10, 100, bidirectional=True, zoneout=0.1), sequences(10),
        ),
        "RKM-LSTM, 300 units, both directions": (
            nn.RKMLSTM(20, 300, bidirectional=True), sequences(20),
        ),
        "RKM-LSTM, 650 units, 16 bits, both directions": (
            nn.RKMLSTM(20, 650, bidirectional=True).bfloat16(), halves(20),
        ),
        "RKM-LSTM, 300 units, both directions, lengths": (
            partial(
                nn.RKMLSTM(20, 300, bidirectional=True),
                lengths=torch.arange(STEPS, STEPS - BATCH, -1),
            ),
            sequences(20),
        ),
        "RKM-LSTM, 3 layers of 64 units": (nn.RKMLSTM(20, 64, 3), sequences(20)),
        "RKM-LSTM, 3 layers of 64 units, a wavefront of 8 chunks": (
            in_chunks(nn.RKMLSTM(20, 64, 3)), sequences(20),
        ),
        "RKM-LSTM, 100 units, zoneout": (nn.RKMLSTM(10, 100, zoneout=0.1), sequences(10)),
        "String kernel, default decay, 1,150 units": (nn.StringKernelRNN(20, 1150), sequences(20)),
        'String kernel, decay="input", 650 units': (
            nn.StringKernelRNN(20, 650, decay="input"), sequences(20),
        ),
        "String kernel, default decay, 100 units": (nn.StringKernelRNN(20, 100), sequences(20)),
        "String kernel, default decay, 407 units": (nn.StringKernelRNN(20, 407), sequences(20)),
        "WL kernel network, 4 rounds, a new batch": (
            nn.WLKernelNN(9, 64, depth=4, edge_dim=6), graphs,
        ),
        "Deep graph kernel network, 2 layers, a new batch": (
            nn.DeepGraphKernelNN(9, 64, num_layers=2, edge_dim=6), graphs,
        ),
        "Gram matrix of 100 sequences, string kernel, order 3": (
            kernels.StringKernel(3), several(100, 64),
        ),
        "Gram matrix of 100 sequences, Gaussian kernel of steps": (
            kernels.StringKernel(2, base=kernels.Gaussian()), several(100, 64),
        ),
        "Gram matrix of 100 texts, string kernel, order 4": (
            kernels.StringKernel(4, base="delta"), texts,
        ),
    }  # fmt: skip


def host_times() -> dict[str, list[list[int]]]:
    """Return by layer the microseconds of Python and torch, forward and backward, in short calls.

    Nothing is launched: what stays is the time that a GPU would wait for the host.
    """
    import torch
    from triton.runtime.jit import JITFunction

    from representer import nn
    from representer.ops import OPS, use_backend

    torch.set_num_threads(1)
    JITFunction.__getitem__ = lambda *of: lambda *x, **y: None  # type: ignore[method-assign]
    for op in OPS.values():
        if old := op.backends.get("triton"):
            op.backends["triton"] = replace(old, devices=(), missing="")
    x, edges = torch.randn(4, 2, 4), torch.randint(0, 20, (2, 40))
    graphs = torch.randn(20, 9), edges, torch.randn(40, 6), torch.arange(20) // 10, 2
    short: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "nn.LSTM, on the CPU": (torch.nn.LSTM(4, 16), (x,)),
        "RKM-LSTM": (nn.RKMLSTM(4, 16), (x,)),
        "RKM-CIFG, layer norm": (nn.RKMCIFG(4, 16, layer_norm=True), (x,)),
        "RKM-LSTM, weights on the chip": (nn.RKMLSTM(4, 160), (x,)),
        "RKM-LSTM, both directions": (nn.RKMLSTM(4, 16, bidirectional=True), (x,)),
        "String kernel, default decay": (nn.StringKernelRNN(4, 16), (x,)),
        "String kernel, weights on the chip": (nn.StringKernelRNN(4, 160), (x,)),
        "WL kernel network, 4 rounds": (nn.WLKernelNN(9, 16, depth=4, edge_dim=6), graphs),
    }
    found = {}
    for name, (layer, arguments) in short.items():
        parameters = [*layer.parameters()]

        def run(layer: Any = layer, arguments: Any = arguments) -> torch.Tensor:
            result = layer(*arguments)
            return result if isinstance(result, torch.Tensor) else result[0]

        with use_backend(None if "CPU" in name else "triton"):
            ones = torch.ones_like(run())

            def both(run: Any = run, parameters: Any = parameters, ones: Any = ones) -> Any:
                return torch.autograd.grad(run(), parameters, ones, allow_unused=True)

            seconds = []
            for call in (run, both):
                rounds = []
                for _ in range(200):
                    begin = time.perf_counter()
                    call()
                    rounds.append(time.perf_counter() - begin)
                seconds.append(sorted(rounds)[60])
        forward, total = (round(1e6 * x) for x in seconds)
        found[name] = [[forward], [total - forward]]
    return found


def counts() -> dict[str, list[list[int]]]:
    """Return by layer the launches of Triton and of other kernels, forward and backward."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
    from triton.runtime.jit import JITFunction

    from representer.kernels import sequences, string_kernel
    from representer.nn.recurrent import machine
    from representer.ops import OPS, gpu, string_gram, use_backend

    launched = [0, 0]

    class Kernels(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            name = func.name().partition("::")[2].partition(".")[0]
            result = func(*args, **(kwargs or {}))
            is_view = name in VIEWS or (
                name in PERHAPS
                and result.untyped_storage().data_ptr() == args[0].untyped_storage().data_ptr()
            )
            launched[1] += func.namespace != "representer" and not is_view
            return result

    def launcher(kernel: Any, grid: Any) -> Callable[..., None]:
        def launch(*arguments: Any, **options: Any) -> None:
            launched[0] += 1
            with _disable_current_modes():  # numbers, where a kernel would have written some
                for x in arguments:
                    if isinstance(x, torch.Tensor) and x.is_floating_point():
                        x.data.zero_()

        return launch

    def counted(run: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if torch._C._len_torch_dispatch_stack():
                return run(*arguments)
            with Kernels():  # an operator turned the mode around it off
                return run(*arguments)

        return call

    class Unobserved:
        """torch._C, but for the mode that counts: layers call fewer operators without one."""

        def __getattr__(self, name: str) -> Any:
            return (lambda: 0) if name == "_len_torch_dispatch_stack" else getattr(torch._C, name)

    gpu.MISSING = ""
    if hasattr(string_gram, "_device_of"):
        string_gram._device_of = lambda x: "cuda"
    else:  # an earlier version, which computed Gram matrices on CUDA in torch
        string_kernel.__dict__["missing"] = lambda *of: "runs on cpu"
    if hasattr(sequences, "_is_on_cuda"):
        sequences._is_on_cuda = lambda item: True
    machine.can_be_read = lambda state: False  # as on a GPU: no check of the state
    sys.modules["representer.ops.rkm_scan"].__dict__["_C"] = Unobserved()
    JITFunction.__getitem__ = launcher  # type: ignore[method-assign]
    for op in OPS.values():
        if old := op.backends.get("triton"):
            run = {"forward": counted(old.forward), "backward": counted(old.backward)}
            op.backends["triton"] = replace(old, devices=(), missing="", **run)
    found = {}
    for name, (layer, make) in layers().items():
        arguments, ways = make(), []
        with use_backend("triton"), Kernels():
            for is_backward in (False, True):
                launched[:] = 0, 0
                if not is_backward:
                    result = layer(*arguments)
                else:
                    output = result if isinstance(result, torch.Tensor) else result[0]
                    if output.requires_grad:
                        output.backward(torch.ones_like(output))
                ways.append([*launched])
        found[name] = ways
    return found


def page_table(before: dict[str, Any] | None, now: dict[str, Any]) -> str:
    """Return the table of both."""
    heads = ["layer", "forward", "backward"]
    if before is not None:
        heads = ["layer", "forward before", "forward", "backward before", "backward"]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    for name, ways in now.items():
        old = [[]] * 2 if before is None else [[x] for x in before[name]]
        counted = [x for one, new in zip(old, ways, strict=True) for x in (*one, new)]
        cells = [" + ".join(map(str, x)) if any(x) else "–" for x in counted]
        lines.append([name, *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", type=Path, help="source folder of an earlier version")
    parser.add_argument("--page", type=Path, help="page whose table is replaced")
    parser.add_argument("--times", action="store_true", help="microseconds of the host instead")
    parser.add_argument("--json", type=Path, help="print the counts of this source folder, and end")
    chosen = parser.parse_args(arguments)
    if chosen.json:  # rather than an editable installation
        sys.meta_path[:] = [x for x in sys.meta_path if "editable" not in f"{x!r}{type(x)}".lower()]
        sys.path.insert(0, str(chosen.json))
        print(json.dumps(host_times() if chosen.times else counts()))
        return
    tables = []
    for folder in filter(None, (chosen.before, ROOT / "src")):
        command = [sys.executable, __file__, "--json", str(folder.resolve())]
        command += ["--times"] * chosen.times
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        tables.append(json.loads(done.stdout.splitlines()[-1]))
    text = page_table(tables[0] if chosen.before else None, tables[-1])
    if chosen.page:
        before, _, rest = chosen.page.read_text("utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        chosen.page.write_text(f"{before}{BEGIN}{ABOUT}\n{text}{END}{after}", "utf-8")
    print(text, end="")


if __name__ == "__main__":
    main(sys.argv[1:])
