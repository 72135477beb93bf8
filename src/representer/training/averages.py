"""Averages of weights, and SGD that averages its iterates once validation stops improving."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from representer.checks import check_integer
from representer.errors import ArgumentError
from representer.training.config import TrainerConfig, is_above_older
from representer.training.lazy_adam import LazyAdam, large_embeddings

if TYPE_CHECKING:
    from accelerate import Accelerator


# The average of the weights of the last steps, without a rate or a length to choose.

EVERY = 10  # steps between updates, so that an embedding of many words costs little
_ETA = 8  # an average of the last ninth of the updates


@contextmanager
def exchanged(weights: Sequence[Tensor], values: Sequence[Tensor]) -> Iterator[None]:
    """Give weights other values within the block, and restore them exactly after it."""
    kept = [weight.detach().clone() for weight in weights]
    _set(weights, values)
    try:
        yield
    finally:
        _set(weights, kept)


@torch.no_grad()
def _set(weights: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for weight, value in zip(weights, values, strict=True):
        weight.copy_(value)


class WeightAverage:
    r"""The polynomial-decay average of weights.

    .. math:: \bar w_n = \Bigl(1 - \frac{\eta + 1}{n + \eta}\Bigr) \bar w_{n-1}
        + \frac{\eta + 1}{n + \eta} w_n, \qquad \eta = 8

    The first weights are forgotten: the average is mostly over the last n / (η + 1) updates, in
    short and in long runs. One update takes place every ten steps.

    References:
        Shamir and Zhang, Stochastic Gradient Descent for Non-smooth Optimization: Convergence
        Results and Optimal Averaging Schemes, ICML 2013, section 4.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._parameters = list(parameters)
        self._means = [torch.zeros_like(weight) for weight in self._parameters]
        self._count = 0

    @torch.no_grad()
    def update(self) -> None:
        """Add the present weights."""
        rate, self._count = self._rate, self._count + 1
        for mean, weight in zip(self._means, self._parameters, strict=True):
            mean.lerp_(weight, rate)

    def averaged(self) -> AbstractContextManager[None]:
        """Give the weights their average within a block, as if updated now; restore them after."""
        with torch.no_grad():
            pairs = zip(self._means, self._parameters, strict=True)
            values = [torch.lerp(mean, weight, self._rate) for mean, weight in pairs]
        return exchanged(self._parameters, values)

    def state_dict(self) -> dict[str, Any]:
        """Return the averages and the number of updates."""
        return {"means": [mean.clone() for mean in self._means], "count": self._count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        self._count = state["count"]
        for mean, value in zip(self._means, state["means"], strict=True):
            mean.copy_(value)

    @property
    def _rate(self) -> float:
        """The weight of the next update, 1 for the first."""
        return (_ETA + 1) / (self._count + 1 + _ETA)


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
        return exchanged(parameters, [self.state[parameter]["mean"] for parameter in parameters])

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
        ours = {
            "losses": list(self._losses),
            "patience": self._patience,
            "steps": self._steps,
            "since": self._since,
        }
        return {**super().state_dict(), "averaging": ours}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        averaging = state_dict["averaging"]
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "averaging"})
        self._losses, self._patience = list(averaging["losses"]), averaging["patience"]
        self._steps, self._since = averaging["steps"], averaging["since"]

    def __getstate__(self) -> dict[str, Any]:
        ours = {name: getattr(self, name) for name in ("_losses", "_patience", "_steps", "_since")}
        return {**super().__getstate__(), **ours}  # torch copies its attributes only

    def _average(self, parameter: Tensor) -> None:
        count = self.averaged_steps
        if count == 1:
            self.state[parameter]["mean"] = parameter.detach().clone()
        elif count > 1:
            self.state[parameter]["mean"].lerp_(parameter.detach(), 1 / count)

    def _parameters(self) -> Iterator[Tensor]:
        for group in self.param_groups:
            yield from group["params"]


# The weights that are evaluated and saved, where these are not the ones that are trained.


class EvaluationWeights:
    """Averages of the weights, and all steps of an optimizer that delays those of some rows."""

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, config: TrainerConfig,
    ) -> None:  # fmt: skip
        self._averaging = optimizer if isinstance(optimizer, NonMonotonicASGD) else None
        self._lazy = optimizer if isinstance(optimizer, LazyAdam) else None
        self._sign = 1 if config.direction == "min" else -1
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        is_averaged = config.average_weights and self._averaging is None
        self._average = WeightAverage(weights) if is_averaged else None

    def training(self, model: nn.Module, accelerator: Accelerator) -> AbstractContextManager[None]:
        """Return a context manager in which large embeddings are updated in the rows of a batch.

        It has an effect in a single process on the CPU, where this is faster.
        """
        is_faster = accelerator.num_processes == 1 and accelerator.device.type == "cpu"
        if self._lazy is None or not is_faster:
            return nullcontext()
        return self._lazy.lookups(large_embeddings(model))

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Give the model the weights to evaluate and save within a block."""
        if self._lazy is not None:
            self._lazy.catch_up()
        average = self._averaging or self._average
        with nullcontext() if average is None else average.averaged():
            yield

    def count_step(self, step: int) -> None:
        """Record that an optimization step is completed."""
        if self._average is not None and step % EVERY == 0:
            if self._lazy is not None:
                self._lazy.catch_up()
            self._average.update()

    def state_dict(self) -> dict[str, Any] | None:
        """Return the averages that no optimizer has, or None."""
        return None if self._average is None else self._average.state_dict()

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Restore the result of `state_dict`."""
        if self._average is not None and state is not None:
            self._average.load_state_dict(state)

    def columns(self) -> dict[str, Any]:
        """Return additional metrics of an evaluation: the number of averaged steps."""
        if self._averaging is None:
            return {}
        return {"averaged_steps": self._averaging.averaged_steps}

    def observe(self, value: float | None) -> bool:
        """Record an evaluation, and return True if averaging starts here."""
        if self._averaging is None or value is None:
            return False
        return self._averaging.observe(self._sign * value)
