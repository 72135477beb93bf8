"""``representer bench``: the cells beside torch.nn.LSTM, timed on this machine."""

from __future__ import annotations

from typing import Any

from representer.cli.parser import add_number

SUMMARY = "Time the cells beside torch.nn.LSTM on this machine."


def add_arguments(parser: Any) -> None:
    """Add the sizes and how often to repeat."""
    add_number(parser, "--length", 100, "T, steps of a sequence")
    add_number(parser, "--batch-size", 32, "B, sequences")
    add_number(parser, "--input-size", 300, "m, numbers per input")
    add_number(parser, "--hidden-size", 300, "d, units of the cell")
    add_number(parser, "--filter-length", 1, "n of the n-gram filters")
    add_number(parser, "--repeats", 15, "rounds; the median counts")
    parser.add_argument("--forward-only", action="store_true", help="no backward pass")
    add_number(parser, "--threads", 0, "CPU threads; 0: as torch chooses")


def run(arguments: Any) -> None:
    """Print the table of timings, and on what it was measured."""
    from representer.tasks.bench_cells import bench_cells

    print(bench_cells(**vars(arguments)))
