"""Test the core of a wheel in a new environment, with no compiler on the path."""

import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

CHECK = """
import torch
from representer.nn import RKMLSTM
from representer.ops import core, use_backend

def passes(backend):
    torch.manual_seed(0)
    layer, x = RKMLSTM(5, 7), torch.randn(11, 3, 5, requires_grad=True)
    with use_backend(backend):
        out, _ = layer(x)
        out.square().sum().backward()
    return out, x.grad

assert not core.MISSING, core.MISSING
for a, b in zip(passes("cpp"), passes("reference"), strict=True):
    torch.testing.assert_close(a, b)
maps = open("/proc/self/maps").read().split()
runtimes = {word for word in maps if "libgomp" in word}
assert len(runtimes) == 1, f"several OpenMP runtimes: {runtimes}"
print("forward and backward pass of the cpp backend:", core.USABLE[0], *runtimes)
"""


def check(wheel: Path) -> None:
    """Install a wheel and run its core."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        environment = {**os.environ, "PATH": f"{folder}/bin"}  # python and pip alone
        environment.pop("REPRESENTER_CORE", None)

        def run(*command: str | Path) -> float:
            start = time.perf_counter()
            subprocess.run(command, check=True, cwd=folder, env=environment)
            return time.perf_counter() - start

        install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        constraints = ("--constraint", Path("constraints.txt").resolve())
        dependencies = run(*install, *constraints, "torch", "numpy")
        seconds = run(*install, wheel.resolve())
        run(python, "-I", "-c", CHECK)
        run(*install, *constraints, f"{wheel.resolve()}[train]")
        run(f"{folder}/bin/representer", "doctor")
    print(f"{wheel.name}: installed in {seconds:.1f} s, torch before it in {dependencies:.0f} s")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        check(Path(name))
