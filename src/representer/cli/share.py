"""The commands that give a run to others: ``export``, ``serve`` and ``demo``."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from representer.cli.parser import PlainCommand, add_device, parse
from representer.errors import ArgumentError, DataError, aligned, say
from representer.options.registry import TASKS
from representer.options.task import require_packages

if TYPE_CHECKING:
    from fastapi import FastAPI

    from representer.export import ExportedRun
    from representer.options.task import Task
    from representer.serving import Limits, ServedModel
    from representer.serving.live import LiveView


INCOMPLETE = 3  # exit code if a part of the predictions is left out
EXPORT_SUMMARY = "Export a trained model as ONNX, as a program of torch.export, or for the Hub."


def add_export_arguments(parser: Any) -> None:
    """Add the run, labeled data, the format, and where to write."""
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    parser.add_argument(
        "data", nargs="?", type=str | None, metavar="DATA",
        help="labeled texts, on which the exported model is compared with the run",
    )  # fmt: skip
    parser.add_argument(
        "--to",
        choices=("onnx", "torch", "c", "html", "hub"),
        default="onnx",
        help="format (default: onnx); c: the network of texts as one C file; html: a page that "
        "predicts and explains texts without a server; hub: what predicts, with a card for the "
        "Hugging Face Hub",
    )
    parser.add_argument(
        "--int8",
        action="store_true",
        help="write ONNX with weights of 8 bits too, or C or the page with them",
    )
    parser.add_argument(
        "--out", type=str | None, metavar="DIR",
        help="folder to write; default: RUN/onnx, RUN/torch, RUN/c, RUN/html, RUN/hub",
    )  # fmt: skip


def run_export(arguments: Any) -> int | None:
    """Write the files; print their differences from the run, sizes and times."""
    from representer.export import export_run
    from representer.storage.run import task_of

    task = TASKS[task_of(arguments.run, TASKS)]
    if arguments.data and "opened" not in task.functions:
        expected = f"nothing, since the model is one of {task.noun}"
        raise ArgumentError("data", arguments.data, expected)
    folder = Path(arguments.out or Path(arguments.run) / arguments.to)
    if arguments.to == "hub":
        for name, value in (("data", arguments.data), ("int8", arguments.int8)):
            if value:
                raise ArgumentError(name, value, "nothing with --to hub")
        from representer import hub

        hub.save_pretrained(arguments.run, folder)
        print(f"{folder}: {', '.join(sorted(f.name for f in folder.glob('[!.]*')))}")
        return None
    run = export_run(arguments.run, folder, arguments.to, int8=arguments.int8)
    print("\n".join(_lines(run)))
    if arguments.data:
        print("\n".join(_scores(task, arguments, run)))
    if run.left_out:
        say(f"incomplete: {run.folder} does not predict as the run does without {run.left_out}")
        return INCOMPLETE
    return None


def _lines(found: ExportedRun) -> list[str]:
    """Return a table of sizes, times and differences, and the other files."""
    from representer.export.runs import STEPS

    names = ", ".join([file.name for file in found.files[1:]] + [*found.others])
    if found.others[0].endswith(".html"):
        names += f", {(found.folder / found.others[0]).stat().st_size:,} bytes"
    if found.c is not None:
        error = f"; the largest error of a weight is {found.c.error:.1e}" if found.c.error else ""
        sizes = f"{found.c.weights:,} bytes of weights, {found.c.work:,} of working memory{error}"
        return [f"{found.folder}: {names}", sizes]
    if not found.files:  # the tables predict alone
        return [f"{found.folder}: {names}"]
    sizes = [f"{each.time} x {each.batch}" for each in found.files[1].parity]
    rows = [["", "size", "time", *sizes]]
    for name, size, milliseconds, parity in found.files:
        differences = [f"{each.difference:.1e}" for each in parity]
        rows.append([name, f"{size / 1e6:.2f} MB", f"{milliseconds:.2f} ms", *differences])
    return [
        f"{found.folder}: {names}",
        f"Time of one sequence of {STEPS} steps; the largest difference of an output from that of "
        "torch, by steps x batch:",
        *aligned(rows),
    ]


def _scores(task: Task, arguments: Any, exported: ExportedRun) -> list[str]:
    """Return how well the run and its exported files predict labeled texts."""
    from representer.estimators.label_sets import LabelSets
    from representer.estimators.targets import Classes, classes_of
    from representer.export import scores
    from representer.tasks.objects import encode_labels

    reading = task.options["evaluate"][0]  # the other options name groups
    estimator, _, objects = task.function("opened")(
        arguments.run, arguments.data, reading(), device="cpu", require_labels=True
    )
    target = estimator.target_
    values = encode_labels(objects, classes_of(target))
    y = [target.names[k] for k in values] if isinstance(target, Classes) else values
    y = target.predicted(values > 0) if isinstance(target, LabelSets) else y
    table = scores(estimator, exported, objects.objects, y)
    names = [*next(iter(table.values()))]
    rows = [["", *names]]
    rows += [[model, *(f"{row[name]:.4f}" for name in names)] for model, row in table.items()]
    what = "Accuracy" if classes_of(target) else "R²"
    return [f"{what} on the {len(objects.objects):,} texts of {arguments.data}:", *aligned(rows)]


# ``representer serve RUN``: answer predictions of a trained model over HTTP.

SERVE_SUMMARY = "Serve the predictions of a trained model over HTTP, on this machine by default."
_TOKEN, _SHORTEST = "REPRESENTER_TOKEN", 16  # a variable; characters


def add_serve_arguments(parser: Any) -> None:
    """Add the run, the address, the token and the limits."""
    from representer.serving import Limits

    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    parser.add_argument(
        "--host", type=str, default="127.0.0.1", help="address (default: this machine alone)"
    )
    parser.add_argument("--port", type=int, default=8000, help="port (default: 8000; 0: any)")
    parser.add_argument(
        "--token-file", type=str | None, metavar="FILE",
        help=f"file with the token that clients send; default: the variable {_TOKEN}, or none; "
        "needed on any other address than this machine's",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=int, default=1,
        help="CPU threads of the model; more make small batches slower (default: 1)",
    )  # fmt: skip
    for field in fields(Limits):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default,
            help=f"limit (default: {field.default})",
        )  # fmt: skip
    add_device(parser)


def run_serve(arguments: Any) -> None:
    """Load the model and answer until the process is stopped; requests in progress are finished."""
    require_packages("serve", "fastapi", "uvicorn", "prometheus-client")
    from representer.serving import Limits, create_app

    token = _token(arguments.token_file)
    if token is None and not _is_loopback(arguments.host):
        expected = "127.0.0.1, ::1 or localhost where there is no token"
        hint = (
            f"Pass --token-file, or set {_TOKEN}: anyone who reaches the port could use the model."
        )
        raise ArgumentError("host", arguments.host, expected, hint=hint)
    limits = Limits(**{field.name: arguments[field.name] for field in fields(Limits)})
    if arguments.threads < 1:
        raise ArgumentError("threads", arguments.threads, "a positive number")
    load = partial(_loaded, arguments.run, arguments.device, arguments.threads)
    listen(
        create_app(load, limits, token), limits, arguments.host, arguments.port,
        lambda address: f"{arguments.run} is served at {address}: POST /predict, /explain, "
        "/streams; GET /model, /health, /metrics, /openapi.json",
    )  # fmt: skip


def _loaded(run: str, device: str, threads: int) -> ServedModel:
    """Return the model of a run, in the process of the model."""
    import torch

    from representer.serving import ServedModel

    torch.set_num_threads(threads)
    return ServedModel(run, device=device)


def listen(
    app: FastAPI, limits: Limits, host: str, port: int, announced: Callable[[str], str]
) -> None:
    """Answer until the process is stopped.

    Port 0 is any; ``announced`` makes what is printed when the port is open from the address.

    Raises:
        DataError: The model cannot be loaded.
    """
    import uvicorn

    from representer.serving.guard import limited_protocol

    app.state.process.start()
    config = uvicorn.Config(
        app, log_level="warning", server_header=False, http=limited_protocol(limits),
        timeout_graceful_shutdown=int(limits.max_seconds) + 1, access_log=False,
        proxy_headers=False,
    )  # fmt: skip
    is_ip6 = ":" in host
    family = socket.AF_INET6 if is_ip6 else socket.AF_INET
    if not 0 <= port < 2**16:
        raise ArgumentError("port", port, "0 to 65535")
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ArgumentError("port", port, f"a free port of {host}", hint=f"{error}.") from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio: only its own sockets
    port = listening.getsockname()[1]
    shown = f"[{host}]" if is_ip6 else host
    say(announced(f"http://{shown}:{port}"))
    uvicorn.Server(config).run([listening])


def _token(file: str | None) -> str | None:
    """Return the token of a file or of the environment; None if there is none."""
    name, token = _TOKEN, os.environ.get(_TOKEN)
    if file is not None:
        try:
            name, token = "token-file", Path(file).read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise ArgumentError("token-file", file, "a file with a token") from error
    if token is not None and (
        len(token) < _SHORTEST or not token.isascii() or not token.isprintable()
    ):
        expected = f"{_SHORTEST} or more printable ASCII characters"
        hint = 'For example: python -c "import secrets; print(secrets.token_urlsafe())"'
        raise ArgumentError(name, f"{len(token)} characters", expected, hint=hint)
    return token


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# ``representer demo``: train on code that every Python carries, and look at what was learned.

DEMO_SUMMARY = (
    "Train the demo, or explain live, in the browser, what is typed into a trained model."
)
DEMO = "runs/demo"


def add_demo_arguments(parser: Any) -> None:
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


def run_demo(arguments: Any) -> None:
    """Train the demo if there is none, and serve the live view until the process is stopped."""
    folder = arguments.run or DEMO
    if not arguments.serve:
        for name, usual in (("data", None), ("port", 8000)):
            if arguments[name] != usual:
                raise ArgumentError(name, arguments[name], "nothing without --serve")
        return _train(folder)
    require_packages("demo", "fastapi", "uvicorn", "prometheus-client", "jinja2")
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
    from representer.tasks.results import examples_of

    torch.set_num_threads(1)  # more make a single object slower
    examples = examples_of(folder, data)
    view = LiveView(ServedModel(folder, device="cpu"), examples)
    if not examples and not view.kind.prompt:
        problem = "windows of a signal are chosen, and there are none"
        raise DataError(problem, file=folder, fix="Name a file of recordings after the run.")
    return view


COMMANDS = {
    "export": PlainCommand(EXPORT_SUMMARY, add_export_arguments, run_export),
    "serve": PlainCommand(SERVE_SUMMARY, add_serve_arguments, run_serve),
    "demo": PlainCommand(DEMO_SUMMARY, add_demo_arguments, run_demo),
}
