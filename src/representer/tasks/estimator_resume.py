"""The options with which a run may be continued."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from representer.storage.run_files import RunFiles
from representer.tasks.options import determining
from representer.training.settings import plain, require_same
from representer.training.trainer_config import TrainerConfig

# A run may be resumed with other values of these; the trainer checks its own settings.
WITHOUT_EFFECT_ON_TRAINING = (
    "data", "valid", "test", "out", "vectors", "baselines", "preset", "resume", "demo", "device",
    "time_limit", "skip_invalid",
)  # fmt: skip


def require_same_options(run: Path, config: Any, splits: Mapping[str, Any]) -> None:
    """Refuse to continue a run with other options or data, whichever of its parts are fitted.

    Args:
        run: The run folder.
        config: The options now.
        splits: The data now, as in splits.json.

    Raises:
        ArgumentError: They differ; the message names each option with both values.
    """
    files = RunFiles(run)
    if not (files.has("config.yaml") and files.has("splits.json")):
        return  # it was interrupted before anything was trained
    saved = files.parsed("config.yaml", lambda: dict(yaml.safe_load(files.text("config.yaml"))))
    digests = files.parsed("splits.json", lambda: files.json("splits.json")["sha256"].values())
    now = determining(config, TrainerConfig(), WITHOUT_EFFECT_ON_TRAINING)
    before = {name: saved.get(name) for name in now} | {"sha256": sorted(digests)}
    now["sha256"] = sorted(splits["sha256"].values())
    require_same(before, plain(now), run)
