"""The steps around training that every ``fit`` has: naming and opening the run, and its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from representer.errors import DataError
from representer.estimators.base import Estimator
from representer.estimators.report_page import environment_of
from representer.printable import show
from representer.report import write_report
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder
from representer.tasks.options import command_of, determining
from representer.training.settings import plain, require_same
from representer.training.trainer_config import EXECUTION, TrainerConfig

# A run may be resumed with other values of these; the trainer checks its own settings.
WITHOUT_EFFECT_ON_TRAINING = (
    *EXECUTION, "data", "valid", "test", "out", "vectors", "baselines", "preset", "resume", "demo",
    "time_limit", "skip_invalid",
)  # fmt: skip


def named(config: Any, demo: str, otherwise: str) -> Any:
    """Return the options with a run folder, which is named after the data if it is not given."""
    name = demo if config.demo else Path(config.data or "").name.partition(".")[0] or otherwise
    return replace(config, out=config.out or f"runs/{name}")


def opened(config: Any) -> RunFolder:
    """Return the folder of a run; a demo continues without ``--resume``."""
    is_repeated_demo = config.demo and Path(config.out).exists()
    return RunFolder(config.out, resume=config.resume or is_repeated_demo)


def require_same_options(run: Path, config: Any, splits: Mapping[str, Any]) -> None:
    """Refuse to continue a run with other options or data, whichever of its parts are fitted.

    Raises:
        ArgumentError: Options differ; the message names each with both values.
        DataError: The data differ; the message names the file.
    """
    files = RunFiles(run)
    if not (files.has("config.yaml") and files.has("splits.json")):
        return  # it was interrupted before anything was trained
    saved = files.yaml("config.yaml")
    before = files.parsed(
        "splits.json", lambda: {*map(str, files.json("splits.json")["sha256"].values())}
    )
    now = determining(config, TrainerConfig(), WITHOUT_EFFECT_ON_TRAINING)
    require_same({name: saved.get(name) for name in now}, plain(now), run)
    digests = splits["sha256"]
    if {*digests.values()} != before:
        changed = next((name for name, own in digests.items() if own not in before), "")
        file = changed if Path(changed).is_file() else config.data  # of running text, a part
        problem = f"is not the data with which the run in {run} was started"
        raise DataError(problem, file=file, fix="Give that data, or choose another --out.")


def repeated(
    task: str, config: Any, usual: Mapping[str, Any], estimator: Estimator
) -> dict[str, Any]:
    """Return what details.json needs to repeat a run: command, options and environment."""
    return {
        "command": command_of(task, config, usual),
        "config": config.to_dict(),
        "environment": environment_of(estimator),
    }


def publish(
    run: RunFolder, metrics: dict[str, Any], details: dict[str, Any], closing: Sequence[str]
) -> dict[str, Any]:
    """Write results and report of a run, print its closing lines, and return the metrics."""
    run.write_json("details.json", details)
    run.write_json("metrics.json", metrics)
    page = write_report(run.path)
    for text in (*closing, f"report: {page}"):
        if text:
            show(text)
    return metrics
