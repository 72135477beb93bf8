"""``representer export RUN``: write a network for use without this library, or a run to share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from representer.errors import ArgumentError
from representer.printable import aligned, say
from representer.tasks.registry import TASKS

if TYPE_CHECKING:
    from representer.export import ExportedRun
    from representer.tasks.task import Task

INCOMPLETE = 3  # exit code if a part of the predictions is left out
SUMMARY = "Export a trained model as ONNX, as a program of torch.export, or for the Hub."


def add_arguments(parser: Any) -> None:
    """Add the run, labeled data, the format, and where to write."""
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    parser.add_argument(
        "data", nargs="?", type=str | None, metavar="DATA",
        help="labeled texts, on which the exported model is compared with the run",
    )  # fmt: skip
    parser.add_argument(
        "--to",
        choices=("onnx", "torch", "hub"),
        default="onnx",
        help="format (default: onnx); hub: what predicts, with a card for the Hugging Face Hub",
    )
    parser.add_argument("--int8", action="store_true", help="write ONNX with weights of 8 bits too")
    parser.add_argument(
        "--out",
        type=str | None,
        metavar="DIR",
        help="folder to write; default: RUN/onnx, RUN/torch, RUN/hub",
    )


def run(arguments: Any) -> int | None:
    """Write the files; print their differences from the run, sizes and times."""
    from representer.export import export_run
    from representer.storage.run_files import task_of

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
    found = export_run(arguments.run, folder, arguments.to, int8=arguments.int8)
    print("\n".join(_lines(found)))
    if arguments.data:
        print("\n".join(_scores(task, arguments, found)))
    if found.left_out.startswith("the kernel machine"):
        say(
            f"incomplete: {found.folder} does not predict as the run does: it has no kernel machine"
        )
        return INCOMPLETE
    return None


def _lines(found: ExportedRun) -> list[str]:
    """Return a table of sizes, times and differences, and the other files."""
    from representer.export.runs import STEPS

    sizes = [f"{each.time} x {each.batch}" for each in found.files[1].parity]
    rows = [["", "size", "time", *sizes]]
    for name, size, milliseconds, parity in found.files:
        differences = [f"{each.difference:.1e}" for each in parity]
        rows.append([name, f"{size / 1e6:.2f} MB", f"{milliseconds:.2f} ms", *differences])
    lines = [
        f"{found.folder}: {', '.join([file.name for file in found.files[1:]] + [*found.others])}",
        f"Time of one sequence of {STEPS} steps; the largest difference of an output from that of "
        "torch, by steps x batch:",
        *aligned(rows),
    ]
    if found.left_out:
        lines.append(f"Not exported: {found.left_out}.")
    return lines


def _scores(task: Task, arguments: Any, exported: ExportedRun) -> list[str]:
    """Return how well the run and its exported files predict labeled texts."""
    from representer.estimators.results import classes_of
    from representer.export import scores
    from representer.tasks.estimator_objects import encode_labels

    (reading,) = task.options["evaluate"]
    estimator, _, objects = task.function("opened")(
        arguments.run, arguments.data, reading(), device="cpu", require_labels=True
    )
    target = estimator.target_
    values = encode_labels(objects, classes_of(target))
    y = [target.names[k] for k in values] if classes_of(target) else values
    found = scores(estimator, exported, objects.objects, y)
    names = [*next(iter(found.values()))]
    rows = [["", *names]]
    rows += [[part, *(f"{own[name]:.4f}" for name in names)] for part, own in found.items()]
    what = "Accuracy" if classes_of(target) else "R²"
    return [f"{what} on the {len(objects.objects):,} texts of {arguments.data}:", *aligned(rows)]
