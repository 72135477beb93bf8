"""Reading and writing the state of a network of learned activations, which counts its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from representer.errors import KindError, ShapeError
from representer.nn.recurrent.state import KBRNState
from representer.nn.recurrent.states import StateLayout


class Outputs(NamedTuple):
    """A state without its steps."""

    h: Tensor
    window: tuple[Tensor, ...]


@dataclass(frozen=True)
class KBRNLayout(StateLayout):
    """A ``StateLayout`` of ``Outputs`` that has a number of steps besides, one a sequence."""

    def read(
        self, state: Any, batch: int, like: Tensor, is_batched: bool
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Return h and steps, and the windows; see ``StateLayout``.

        Raises:
            KindError: If the state is not such a tuple, or of another dtype or device.
            ShapeError: If a part of it has another shape.
        """
        steps = torch.zeros(self.directions, 1, dtype=torch.int64, device=like.device)
        steps = steps.expand(-1, batch)  # that they are all equal can be seen of its stride
        if isinstance(state, tuple) and len(state) in (2, 3):
            h, steps, *rest = state
            self._check_steps(steps, batch, like, is_batched)
            steps = steps if is_batched else steps[:, None]
            state = (h, *rest)
        (h,), windows = super().read(state, batch, like, is_batched)
        return (h, steps), windows

    def write(
        self, fields: list[tuple[Tensor, ...]], windows: list[Tensor], is_batched: bool
    ) -> KBRNState:
        """Return the state made of each direction's fields and window."""
        outputs = super().write([(h,) for h, _ in fields], windows, is_batched)
        steps = torch.stack([steps for _, steps in fields])
        return KBRNState(outputs.h, steps if is_batched else steps[:, 0], outputs.window)

    def _check_steps(self, steps: Any, batch: int, like: Tensor, is_batched: bool) -> None:
        shape = (self.directions, batch) if is_batched else (self.directions,)
        wanted = f"integers {shape}"
        if not isinstance(steps, Tensor):
            raise KindError("state.steps", type(steps).__name__, wanted)
        if tuple(steps.shape) != shape:
            raise ShapeError("state.steps", steps.shape, str(shape))
        if steps.dtype != torch.int64 or steps.device != like.device:
            raise KindError("state.steps", f"{steps.dtype} on {steps.device}", wanted)

    def _expected(self, batch: int, is_batched: bool) -> str:
        middle = (batch,) if is_batched else ()
        h, steps = (self.directions, *middle, self.hidden_size), (self.directions, *middle)
        return f"KBRNState(h {h}, steps {steps}, window)"
