"""``representer predict RUN DATA -o OUT.csv``: predict the rows of a table, or recordings."""

from __future__ import annotations

from typing import Any

from representer.cli.run_options import add_run_and_options, data_of, task_and_options
from representer.errors import ArgumentError

BACKENDS = ("loky", "dask", "ray")
SUMMARY = "Predict the texts or molecules of a table, graphs, or recordings, with a trained model."


def add_arguments(parser: Any) -> None:
    """Add the run, the data, where to write, and the options of every task."""
    add_run_and_options(parser, "predict")
    parser.add_argument(
        "-o", "--output", type=str | None, metavar="OUT.csv",
        help="CSV file to write; -, the default, is stdout; with --jobs, a folder",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=int | None, metavar="N",
        help="predict the files of DATA, a folder or a pattern, by so many workers, each into a "
        "file of its own",
    )  # fmt: skip
    parser.add_argument(
        "--backend",
        type=str,
        choices=BACKENDS,
        default="loky",
        help="of --jobs: processes (loky), or workers of a Dask or Ray cluster (default: loky)",
    )
    parser.add_argument(
        "--address", type=str | None, metavar="HOST:PORT",
        help="of --backend: the Dask scheduler, or auto on a machine of a Ray cluster; default: "
        "workers are started here",
    )  # fmt: skip


def run(arguments: Any) -> None:
    """Write the rows of the input, in order, each with a prediction and its confidence."""
    task, options = task_and_options(arguments, "predict")
    output = None if arguments.output == "-" else arguments.output
    data = data_of(task, arguments)
    if arguments.jobs is not None:
        _predict_parts(arguments, task, data, options)
        return
    for name, usual in (("backend", "loky"), ("address", None)):
        if arguments[name] != usual:
            raise ArgumentError(name, arguments[name], "nothing without --jobs")
    task.function("predict")(arguments.run, data, output, *options, device=arguments.device)


def _predict_parts(arguments: Any, task: Any, data: Any, options: list[Any]) -> None:
    if arguments.jobs < 1:
        raise ArgumentError("jobs", arguments.jobs, "1 or more")
    if not isinstance(data, str) or arguments.data == "-":
        raise ArgumentError("jobs", arguments.jobs, "nothing with --input or standard input")
    if arguments.output in (None, "-"):
        raise ArgumentError("output", arguments.output, "a folder, since --jobs is given")
    if arguments.backend == "loky" and arguments.address is not None:
        raise ArgumentError("address", arguments.address, "nothing with --backend loky")
    from representer.jobs import workers
    from representer.tasks.predicted_parts import predict_parts

    with workers(arguments.backend, arguments.jobs, arguments.address):
        predict_parts(
            task, arguments.run, data, arguments.output, options, device=arguments.device,
            n_jobs=None if arguments.address else arguments.jobs,
        )  # fmt: skip
