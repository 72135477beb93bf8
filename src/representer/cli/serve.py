"""``representer serve RUN``: answer predictions of a trained model over HTTP."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from representer.cli.run_options import add_device
from representer.errors import ArgumentError
from representer.printable import say
from representer.tasks.packages import require

if TYPE_CHECKING:
    from fastapi import FastAPI

    from representer.serving import Limits, ServedModel

SUMMARY = "Serve the predictions of a trained model over HTTP, on this machine by default."
_TOKEN, _SHORTEST = "REPRESENTER_TOKEN", 16  # a variable; characters


def add_arguments(parser: Any) -> None:
    """Add the run, the address, the token and the limits."""
    from representer.serving.limits import Limits

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


def run(arguments: Any) -> None:
    """Load the model and answer until the process is stopped; requests in progress are finished."""
    require("serve", "fastapi", "uvicorn", "prometheus-client")
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

    Args:
        app: What answers.
        limits: Its limits.
        host: Address.
        port: Port; 0 for any.
        announced: From the address to what is printed when the port is open.

    Raises:
        ArgumentError: The port is not free, or out of range.
        DataError: The model cannot be loaded.
    """
    import uvicorn

    from representer.serving.connections import limited_protocol

    app.state.process.start()
    config = uvicorn.Config(
        app, log_level="warning", server_header=False, http=limited_protocol(limits),
        timeout_graceful_shutdown=int(limits.max_seconds) + 1,
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
    """Return the token of a file or of the environment; None if there is none.

    Raises:
        ArgumentError: It cannot be read, or can be guessed.
    """
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
