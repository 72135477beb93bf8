"""Write one Gram matrix by this process and by two workers of an engine, one of which is killed.

``cluster_workers.py ENGINE FOLDER`` writes FOLDER/one.npy and FOLDER/cluster.npy, Nyström features
as FOLDER/one-features.npy and FOLDER/cluster-features.npy, and a file FOLDER/ID for each process
that computed blocks; FOLDER/killed has the ID of the killed worker.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import joblib
import numpy as np

from representer.kernels import Nystroem, StringKernel, gram

BLOCK = 8


class MortalKernel(StringKernel):
    """A string kernel that kills the first worker which has computed three blocks."""

    def __init__(self, order: int = 2, folder: str = "", main: int = 0) -> None:
        super().__init__(order)
        self.folder, self.main = folder, main

    def __call__(self, X, Y=None):
        """Return the kernel values, unless the process has to end."""
        values = super().__call__(X, Y)
        if os.getpid() != self.main:
            own = Path(self.folder, str(os.getpid()))
            with own.open("a", encoding="ascii") as file:
                file.write("x")
            if own.stat().st_size == 3:
                self._kill()
        return values

    def _kill(self) -> None:
        with suppress(FileExistsError):
            with Path(self.folder, "killed").open("x", encoding="ascii") as marker:
                marker.write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def two_workers(engine: str) -> Iterator[None]:
    """Start two workers of an engine, and let joblib use them."""
    if engine == "dask":
        from dask.distributed import Client, LocalCluster

        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
        with cluster, Client(cluster), joblib.parallel_config("dask"):
            yield
    elif engine == "ray":
        import ray
        from ray.util.joblib import register_ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        register_ray()
        with joblib.parallel_config("ray", n_jobs=2):
            yield
        ray.shutdown()
    else:
        with joblib.parallel_config(engine, n_jobs=2):
            yield


def main(engine: str, folder: str) -> None:
    draw, place = np.random.default_rng(0), Path(folder)
    sequences = [draw.normal(size=(n % 9, 30)) for n in range(70)]
    kernel = MortalKernel(folder=folder, main=os.getpid())
    nystroem = Nystroem(kernel, 10, random_state=0, block=BLOCK).fit(sequences)
    gram(kernel, sequences, out=place / "one.npy", block=BLOCK)
    np.save(place / "one-features.npy", nystroem.transform(sequences))
    with two_workers(engine):
        gram(kernel, sequences, out=place / "cluster.npy", block=BLOCK)
        np.save(place / "cluster-features.npy", nystroem.transform(sequences))


if __name__ == "__main__":
    main(*sys.argv[1:])
