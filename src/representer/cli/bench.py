"""``representer bench``: time the cells and torch.nn.LSTM on this machine."""

from __future__ import annotations

from typing import Any

from representer.cli.parser import add_number

SUMMARY = "Time the cells and torch.nn.LSTM on this machine."


def add_arguments(parser: Any) -> None:
    """Add the sizes and the number of repeats."""
    add_number(parser, "--length", 100, "T, sequence length")
    add_number(parser, "--batch-size", 32, "B, batch size")
    add_number(parser, "--input-size", 300, "m, input features")
    add_number(parser, "--hidden-size", 300, "d, hidden units")
    add_number(parser, "--filter-length", 1, "n, length of the n-gram filters")
    add_number(parser, "--repeats", 15, "rounds; the median is reported")
    parser.add_argument("--forward-only", action="store_true", help="skip the backward pass")
    add_number(parser, "--threads", 0, "CPU threads; 0: the default of torch")


def run(arguments: Any) -> None:
    """Print the table of timings and the machine."""
    from representer.tasks.bench_cells import bench_cells

    print(bench_cells(**vars(arguments)))
