"""SGD that averages its iterates once validation stops improving (NT-ASGD)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from representer.errors import ArgumentError
from representer.requirements import check_integer
from representer.training.early_stopping import is_above_older
from representer.training.weight_average import exchanged


class NonMonotonicASGD(torch.optim.Optimizer):
    r"""SGD that averages its iterates after a step T.

    .. math::
        w_{k+1} = w_k - \gamma (g_k + \delta w_k), \qquad
        \bar w_K = \frac{1}{K - T} \sum_{k=T+1}^{K} w_k

    T is the step of the first evaluation whose loss exceeds the minimum of all losses before the
    last ``patience`` ones. Averaging does not change the iterates. Each step uses the current
    learning rate of the group, so that segments may have different rates.

    Args:
        params: Parameters, or groups of them.
        lr: γ.
        weight_decay: δ.
        patience: The number of most recent losses to ignore.
        starts_averaging: Set T to 0, as for fine-tuning.

    Raises:
        ArgumentError: A number is out of range.

    References:
        Merity et al., Regularizing and Optimizing LSTM Language Models, ICLR 2018, algorithm 1.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        weight_decay: float = 0.0,
        patience: int = 5,
        *,
        starts_averaging: bool = False,
    ) -> None:
        if not 0 < lr < math.inf:
            raise ArgumentError("lr", lr, "a finite number above 0")
        if not 0 <= weight_decay < math.inf:
            raise ArgumentError("weight_decay", weight_decay, "a finite number of at least 0")
        self._losses: list[float] = []
        self._patience = check_integer("patience", patience)
        self._steps = 0
        self._since: int | None = 0 if starts_averaging else None
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @property
    def averaged_steps(self) -> int:
        """K − T, the number of averaged iterates; 0 before averaging starts."""
        return 0 if self._since is None else self._steps - self._since

    def observe(self, loss: float) -> bool:
        """Record a validation loss.

        Args:
            loss: The loss of the evaluation at this step; ignored if it is not finite.

        Returns:
            True if averaging starts here.
        """
        if not math.isfinite(loss):
            return False
        self._losses.append(float(loss))
        is_worse = is_above_older(self._losses, "min", self._patience)
        if self._since is not None or not is_worse:
            return False
        self._since = self._steps
        return True

    def averaged(self) -> AbstractContextManager[None]:
        """Set the parameters to their means within a block, and restore them exactly after it."""
        parameters = list(self._parameters()) if self.averaged_steps else []
        return exchanged(parameters, [self.state[one]["mean"] for one in parameters])

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Perform a step, and update the mean if averaging has started."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._steps += 1
        for group in self.param_groups:
            rate, decay = group["lr"], group["weight_decay"]
            for parameter in group["params"]:
                if parameter.grad is not None:
                    if decay:
                        parameter.mul_(1 - rate * decay)
                    parameter.add_(parameter.grad, alpha=-rate)
                self._average(parameter)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimizer, including the averages."""
        own = {
            "losses": list(self._losses),
            "patience": self._patience,
            "steps": self._steps,
            "since": self._since,
        }
        return {**super().state_dict(), "averaging": own}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        own = state_dict["averaging"]
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "averaging"})
        self._losses, self._patience = list(own["losses"]), own["patience"]
        self._steps, self._since = own["steps"], own["since"]

    def __getstate__(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("_losses", "_patience", "_steps", "_since")}
        return {**super().__getstate__(), **own}  # torch copies its attributes only

    def _average(self, parameter: Tensor) -> None:
        count = self.averaged_steps
        if count == 1:
            self.state[parameter]["mean"] = parameter.detach().clone()
        elif count > 1:
            self.state[parameter]["mean"].lerp_(parameter.detach(), 1 / count)

    def _parameters(self) -> Iterator[Tensor]:
        for group in self.param_groups:
            yield from group["params"]
