"""``representer generate RUN``: let a trained language model write on."""

from __future__ import annotations

import sys
from itertools import chain
from typing import Any

from representer.cli.parser import add_number
from representer.printable import printable

SUMMARY = "Let a trained language model write on from a prompt."


def add_arguments(parser: Any) -> None:
    """Add the run, the prompt, and how to draw."""
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    parser.add_argument("--prompt", type=str, default="", help="what to go on from", metavar="TEXT")
    parser.add_argument(
        "-n", "--tokens", type=int, default=100, help="tokens to write (default: 100)", metavar="N"
    )
    parser.add_argument(
        "--temperature", type=float, default=1.0, metavar="X",
        help="below 1 the likely is likelier; 0 is the likeliest alone (default: 1.0)",
    )  # fmt: skip
    parser.add_argument(
        "--top-p", type=float, default=1.0, metavar="X",
        help="draw from the likeliest that together have this probability (default: 1.0)",
    )  # fmt: skip
    add_number(parser, "--seed", 0, "another one draws another text")


def run(arguments: Any) -> None:
    """Print the prompt and what follows it, word by word as it is drawn."""
    from representer.tasks.language.language_use import Sampling, write_on

    sampling = Sampling(arguments.tokens, arguments.temperature, arguments.top_p, arguments.seed)
    pieces = write_on(arguments.run, arguments.prompt, sampling)
    is_terminal = sys.stdout.isatty()
    for piece in chain([arguments.prompt], pieces):
        sys.stdout.write(printable(piece, keep="\n\t") if is_terminal else piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
