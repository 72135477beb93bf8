"""Test the core of a wheel, with no compiler on the path, or of an sdist, in a new environment."""

import argparse
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


def check(package: Path, sbom: str | None) -> None:
    """Install a wheel, or that of an sdist, run its core, and maybe list all that is installed."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        environment = {**os.environ, "PATH": f"{folder}/bin"}  # python and pip alone
        environment.pop("REPRESENTER_CORE", None)

        def run(*command: str | Path) -> float:
            start = time.perf_counter()
            subprocess.run(command, check=True, cwd=folder, env=environment)
            return time.perf_counter() - start

        pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
        install = (*pip, "install")
        if package.suffix != ".whl":
            built = (*pip, "wheel", "--no-deps", "--wheel-dir", folder, package.resolve())
            subprocess.run(built, check=True)  # with a compiler
            (package,) = Path(folder).glob("*.whl")
        constraints = ("--constraint", Path("constraints.txt").resolve())
        dependencies = run(*install, *constraints, "torch", "numpy")
        seconds = run(*install, package.resolve())
        run(python, "-I", "-c", CHECK)
        run(*install, *constraints, f"{package.resolve()}[train]")
        run(f"{folder}/bin/representer", "doctor")
        if sbom:
            options = ("--pyproject", "pyproject.toml", "--of", "JSON", "--output-file", sbom)
            listed = (sys.executable, "-m", "cyclonedx_py", "environment", *options, python)
            subprocess.run(listed, check=True)
    print(f"{package.name}: installed in {seconds:.1f} s, torch before it in {dependencies:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="+", type=Path)
    parser.add_argument("--sbom", help="file for the list of dependencies, in CycloneDX's JSON")
    arguments = parser.parse_args()
    for each in arguments.packages:
        check(each, arguments.sbom)
