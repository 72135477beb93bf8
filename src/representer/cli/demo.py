"""``representer demo``: train on code that every Python carries, and look at what was learned."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from representer.cli.parser import parse
from representer.errors import ArgumentError, DataError
from representer.printable import say
from representer.tasks.packages import require

if TYPE_CHECKING:
    from representer.serving.live import LiveView

SUMMARY = "Train the demo, or explain live, in the browser, what is typed into a trained model."
DEMO = "runs/demo"


def add_arguments(parser: Any) -> None:
    """Add the run, and how to serve it."""
    parser.add_argument(
        "run", nargs="?", type=str | None, metavar="RUN",
        help=f"run folder of the demo; with --serve that of any trained model (default: {DEMO})",
    )  # fmt: skip
    parser.add_argument(
        "data", nargs="?", type=str | None, metavar="DATA",
        help="of --serve: file or folder with examples to choose; of the training's data, those of "
        "the test part",
    )  # fmt: skip
    parser.add_argument(
        "--serve", action="store_true",
        help="explain what is typed or chosen on a page that this machine serves to itself alone",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=int, default=8000, metavar="N",
        help="of --serve: port of 127.0.0.1 (default: 8000; 0: any)",
    )  # fmt: skip


def run(arguments: Any) -> None:
    """Train the demo if there is none, and serve the live view until the process is stopped."""
    folder = arguments.run or DEMO
    if not arguments.serve:
        for name, usual in (("data", None), ("port", 8000)):
            if arguments[name] != usual:
                raise ArgumentError(name, arguments[name], "nothing without --serve")
        return _train(folder)
    require("demo", "fastapi", "uvicorn", "prometheus-client", "jinja2")
    if arguments.run is None and not Path(DEMO, "metrics.json").exists():
        say(f"{DEMO} is not trained yet")
        _train(DEMO)
    return _serve(folder, arguments.data, arguments.port)


def _train(folder: str) -> None:
    """Do what ``representer fit text --demo --out RUN --resume`` does."""
    from representer.cli.main import load

    command = load("fit text")
    command.run(parse("fit text", command, ["--demo", "--out", folder, "--resume"]))


def _serve(folder: str, data: str | None, port: int) -> None:
    from representer.cli.serve import listen
    from representer.serving import Limits
    from representer.serving.live import create_live_app

    listen(
        create_live_app(partial(_view, folder, data)), Limits(), "127.0.0.1", port,
        lambda address: f"{folder} is explained live at {address} (Ctrl-C stops it)",
    )  # fmt: skip


def _view(folder: str, data: str | None) -> LiveView:
    """Return the live view of a run, in the process of the model."""
    import torch

    from representer.serving import ServedModel
    from representer.serving.live import LiveView
    from representer.tasks.examples_of_run import examples_of

    torch.set_num_threads(1)  # more make a single object slower
    examples = examples_of(folder, data)
    view = LiveView(ServedModel(folder, device="cpu"), examples)
    if not examples and not view.kind.prompt:
        problem = "windows of a signal are chosen, and there are none"
        raise DataError(problem, file=folder, fix="Name a file of recordings after the run.")
    return view
