"""``fit text --demo``: Python's own documentation, sorted by package, by two cells of one width."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from representer.tasks.packages import require
from representer.tasks.storage.run_folder import RunFolder
from representer.tasks.text.text_config import TextConfig
from representer.tasks.text.text_data import prepare
from representer.tasks.text.text_fit import (
    NEEDED,
    evaluate_and_report,
    train,
    with_default_output_dir,
)
from representer.tasks.training.progress import say

PEER = "lstm"


def demo(config: TextConfig) -> dict[str, Any]:
    """Train the chosen cell, and an LSTM of the same width beside it in ``RUN/lstm``.

    A finished demo is told again, an interrupted one goes on: there is nothing to lose here that
    would have to be asked about.

    Args:
        config: The run; of a demo everything has a default.

    Returns:
        The metrics of the chosen cell, the LSTM's among the comparisons.
    """
    require("fit text", *NEEDED)
    config = replace(with_default_output_dir(config), baselines=True)
    data = prepare(config)
    say(f"{len(data.train)} paragraphs of docstrings to train on, {len(data.classes)} packages")
    peer = replace(config, cell=PEER, out=str(Path(config.out or "") / PEER), baselines=False)
    with _open(config) as run, _open(peer) as beside:
        print(f"{config.cell}:")
        trained = train(run, config, data, None)
        print(f"{peer.cell}:")
        other = train(beside, peer, data, None)
        return evaluate_and_report(run, data, trained, [other.answers])


def _open(config: TextConfig) -> RunFolder:
    folder = Path(config.out or "")
    return RunFolder(folder, resume=folder.exists())
