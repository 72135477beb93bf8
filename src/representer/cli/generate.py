"""``representer generate RUN``: continue a prompt with a trained language model."""

from __future__ import annotations

import sys
from itertools import chain
from typing import Any

from representer.cli.parser import add_number
from representer.cli.run_options import add_device
from representer.printable import printable
from representer.tasks.registry import task_of_run

SUMMARY = "Generate text from a prompt with a trained language model."


def add_arguments(parser: Any) -> None:
    """Add the run, the prompt, and how to sample."""
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    parser.add_argument("--prompt", type=str, default="", help="text to continue", metavar="TEXT")
    add_number(parser, "--tokens", 100, "tokens to generate", "-n")
    parser.add_argument(
        "--temperature", type=float, default=1.0, metavar="X",
        help="softmax temperature; below 1 sharpens the distribution; 0: greedy (default: 1.0)",
    )  # fmt: skip
    parser.add_argument(
        "--top-p", type=float, default=1.0, metavar="X",
        help="sample from the smallest set of tokens with this total probability (default: 1.0)",
    )  # fmt: skip
    add_number(parser, "--seed", 0, "random seed")
    add_device(parser)


def run(arguments: Any) -> None:
    """Print the prompt and its continuation, token by token as it is sampled."""
    how = {name: arguments[name] for name in ("temperature", "top_p", "seed", "device")}
    task = task_of_run(arguments.run, "generate")
    pieces = task.function("generate")(arguments.run, arguments.prompt, arguments.tokens, **how)
    is_terminal = sys.stdout.isatty()
    for piece in chain([arguments.prompt], pieces):
        sys.stdout.write(printable(piece, keep="\n\t") if is_terminal else piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
