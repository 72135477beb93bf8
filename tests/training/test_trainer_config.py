"""The trainer's configuration: its ranges, and what a resumed run may change."""

from __future__ import annotations

import pytest

from representer.errors import ArgumentError
from representer.training.config import TrainerConfig


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0), ("max_steps", 0), ("lr", 0.0), ("lr", -1.0), ("lr", float("inf")),
        ("lr", float("nan")), ("weight_decay", -0.1), ("lr_decay", 0.0), ("lr_decay", float("nan")),
        ("max_drop", 0.0), ("max_drop", float("inf")), ("clip_norm", 0.0), ("clip_value", -1.0),
        ("evaluate_every", 0), ("checkpoint_every_steps", 0), ("checkpoint_every_seconds", 0.0),
        ("keep_checkpoints", 0), ("patience", 0), ("threads", 0), ("threads", 100_000_000),
        ("direction", "up"), ("device", "tpu"), ("mixed_precision", "fp8"),
    ],
)  # fmt: skip
def test_a_value_out_of_its_range_is_named(name: str, value: object) -> None:
    with pytest.raises(ArgumentError, match=rf"^{name} is {value!r}; expected "):
        TrainerConfig(**{name: value})


def test_settings_leave_out_what_changes_no_number() -> None:
    quiet = TrainerConfig(show_progress=False, checkpoint_every_steps=3, threads=2, device="cpu")
    assert quiet.settings() == TrainerConfig().settings()
    assert TrainerConfig(lr=0.5).settings() != TrainerConfig().settings()
