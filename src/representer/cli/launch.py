"""``--launch torchrun``: several processes, here or on several machines, that train one model."""

from __future__ import annotations

import os
import sys
from typing import Any

from representer.errors import ArgumentError

_IS_WORKER, _RESTARTS = "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"  # set by torchrun
USUAL = {"nproc": 1, "nnodes": 1, "rdzv_endpoint": None, "max_restarts": 0}


def add_launch(parser: Any) -> None:
    """Add the options of several processes, with torchrun's names."""
    parser.add_argument(
        "--launch", type=str | None, choices=("torchrun",), default=None,
        help="start several processes that train one model; each batch is divided among them",
    )  # fmt: skip
    parser.add_argument(
        "--nproc", type=int, default=1, metavar="N",
        help="of --launch: processes on each machine (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--nnodes", type=int, default=1, metavar="N",
        help="of --launch: machines, each of which is given the same command (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--rdzv-endpoint", type=str | None, default=None, metavar="HOST:PORT",
        help="of --launch: address of the first machine, if there are several",
    )  # fmt: skip
    parser.add_argument(
        "--max-restarts", type=int, default=0, metavar="N",
        help="of --launch: how often all processes are started again, from the last checkpoint, "
        "when one of them fails (default: 0)",
    )  # fmt: skip


def is_restarted() -> bool:
    """Return True in a process that torchrun started again after a failure."""
    return os.environ.get(_RESTARTS, "0") != "0"


def launch(arguments: Any) -> None:
    """Replace this process by torchrun if ``--launch`` is given; return in its processes.

    Raises:
        ArgumentError: The options do not fit together.
    """
    if arguments["launch"] is None:
        for name, usual in USUAL.items():
            if arguments[name] != usual:
                raise ArgumentError(name, arguments[name], "nothing without --launch")
        return
    if _IS_WORKER in os.environ:
        return
    for name, least in (("nproc", 1), ("nnodes", 1), ("max_restarts", 0)):
        if arguments[name] < least:
            raise ArgumentError(name, arguments[name], f"{least} or more")
    endpoint = arguments["rdzv_endpoint"]
    if (arguments["nnodes"] > 1) != (endpoint is not None):
        expected = "HOST:PORT of the first machine" if endpoint is None else "nothing on one"
        raise ArgumentError("rdzv_endpoint", endpoint, expected)
    sys.stdout.flush()
    os.execve(sys.executable, command(arguments, sys.argv[1:]), environment(arguments))


def command(arguments: Any, words: list[str]) -> list[str]:
    """Return the command line of torchrun for the words of this command."""
    return [
        sys.executable, "-m", "torch.distributed.run",
        *("--nproc-per-node", str(arguments["nproc"]), "--nnodes", str(arguments["nnodes"])),
        *("--max-restarts", str(arguments["max_restarts"]), "--rdzv-backend", "c10d"),
        *("--rdzv-endpoint", arguments["rdzv_endpoint"] or "127.0.0.1:0"),
        *("-m", "--", "representer", *words),  # words may look like options of torchrun
    ]  # fmt: skip


def environment(arguments: Any) -> dict[str, str]:
    """Return the variables of torchrun and its processes."""
    import torch

    own = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # a restart must not find old addresses
    if "OMP_NUM_THREADS" not in os.environ:
        own["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // arguments["nproc"]))
    if arguments["device"] == "cpu" or not torch.cuda.is_available():
        own["ACCELERATE_USE_CPU"] = "true"
    return os.environ | own
