"""Training and evaluating a network on encoded objects."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from representer.errors import ArgumentError
from representer.estimators.targets import Numbers, Target
from representer.options.task import AUTO, TrainingParameters, in_common
from representer.storage.checkpoint import forms_of, require_same_forms
from representer.training import generators
from representer.training.config import TrainerConfig, TrainingTask

EVALUATION_BATCH = 256
PADDED = 32  # lengths of batches are a multiple of this where few shapes are needed
FINE_ACCURACY = 1000  # validation examples from which accuracy tells epochs apart
ENOUGH_STEPS = 1500  # steps after which small data have been learned


class Inputs(Protocol):
    """The conversion of objects to batches of a network, learned from the training objects."""

    def encode(self, X: Sequence[Any]) -> Sequence[Any]:
        """Return each object as the network's own input."""
        ...

    def collate(self, encoded: Sequence[Any], multiple: int = 1) -> tuple[Any, ...]:
        """Return the arguments of the network; lengths of padding are rounded up to a multiple."""
        ...

    def size(self, encoded: Any) -> int:
        """Return the size of an encoded object; those of similar size are predicted together."""
        ...

    def batches(
        self, encoded: Sequence[Any], batch_size: int, seed: int
    ) -> Callable[[int], Sequence[Sequence[int]]]:
        """Return the pure function from an epoch to its batches of positions, in random order."""

        def of_epoch(epoch: int) -> list[list[int]]:
            order = generators.generator(seed, epoch)
            rows = torch.randperm(len(encoded), generator=order).tolist()
            return [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]

        return of_epoch


class Examples(NamedTuple):
    """Encoded objects and encoded targets, of one length, and the weights of the targets."""

    objects: Sequence[Any]
    values: NDArray[Any]
    weights: NDArray[np.float64] | None = None  # (N, K)


def training_task(
    parameters: TrainingParameters, inputs: Inputs, target: Target, train: Examples,
    valid: Examples, seed: int, augment: Callable[..., tuple[Any, ...]] | None = None,
) -> TrainingTask:  # fmt: skip
    """Return batches, loss and evaluation; without validation, the last weights are kept."""
    order = generators.derive(seed, "order")
    batch_size = batch_size_for(parameters, len(train.objects))
    multiple = PADDED if parameters.cuda_graph else 1

    def load(positions: Sequence[int]) -> tuple[Any, tuple[Tensor, ...]]:
        targets = (torch.from_numpy(train.values[list(positions)]),)
        if train.weights is not None:
            targets += (torch.from_numpy(train.weights[list(positions)]),)
        return inputs.collate([train.objects[i] for i in positions], multiple), targets

    def loss(model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        arguments, targets = batch
        arguments = augment(*arguments) if augment else arguments
        return target.loss(model(*arguments), *targets), len(targets[0])

    def evaluate(model: nn.Module, check: Callable[[], None]) -> dict[str, float]:
        if not len(valid.objects):
            return {"valid_loss": math.nan, "valid_accuracy": math.nan}
        outputs = outputs_of(model, inputs, valid.objects, check)
        return target.metrics(outputs, valid.values, valid.weights)

    return TrainingTask(inputs.batches(train.objects, batch_size, order), load, loss, evaluate)


def trainer_config(
    parameters: TrainingParameters, target: Target, train: Examples, valid: Examples, seed: int
) -> TrainerConfig:
    """Return the configuration of the trainer; what is not given follows the number of examples."""
    count = len(train.objects)
    monitor, direction = monitored(parameters, target, len(valid.objects))
    steps_per_epoch = -(-count // batch_size_for(parameters, count))
    epochs = parameters.epochs or epochs_for(steps_per_epoch)
    config = trainer_options(parameters, epochs, seed, monitor=monitor, direction=direction)
    return config if len(valid.objects) else replace(config, patience=None)


def trainer_options(
    parameters: TrainingParameters, epochs: int, seed: int, **others: Any
) -> TrainerConfig:
    """Return the configuration of the trainer for a number of epochs, in which 0 is no limit."""
    chosen = in_common(parameters, TrainerConfig)
    if parameters.patience is None:
        least = 2 if parameters.average_weights else 3  # losses of averages are smooth
        chosen["patience"] = max(least, epochs // 5)
    for name in ("max_steps", "evaluate_every", "clip_norm", "clip_value", "patience"):
        chosen[name] = chosen[name] or None
    chosen |= {"epochs": epochs, "seed": seed, "threads": parameters.n_jobs}
    chosen["lr_decay"] = None if parameters.lr_decay == 1 else parameters.lr_decay
    chosen["save_every_epochs"] = parameters.save_every_epochs
    chosen["show_progress"] = parameters.verbose > 0
    return TrainerConfig(**chosen | others)


def monitored(
    parameters: TrainingParameters, target: Target, count: int
) -> tuple[str, Literal["max", "min"]]:
    """Return the metric that selects the best epoch on some validation examples, and its end."""
    is_fine = count >= FINE_ACCURACY  # fewer examples leave many epochs level
    chosen = parameters.monitor
    if chosen == AUTO:
        chosen = "accuracy" if is_fine else "loss"
    is_accuracy = chosen == "accuracy" and not isinstance(target, Numbers)
    return ("valid_accuracy", "max") if is_accuracy else ("valid_loss", "min")


def epochs_for(steps_per_epoch: int) -> int:
    """Return a number of epochs from 10 to 100 that makes enough steps if it can."""
    return int(np.clip(-(-ENOUGH_STEPS // max(1, steps_per_epoch)), 10, 100))


def batch_size_for(parameters: TrainingParameters, count: int) -> int:
    """Return the batch size: that of the parameters, or 8 for 50 examples and 32 from 800 on."""
    return parameters.batch_size or int(np.clip(round(count**0.5 * 1.13), 8, 32))


@torch.no_grad()
def outputs_of(
    network: nn.Module, inputs: Inputs, encoded: Sequence[Any],
    check: Callable[[], None] = lambda: None,
) -> NDArray[np.float64]:  # fmt: skip
    """Return the network's outputs for encoded objects ``([M,] N, W)``, in their order."""
    device = next(network.parameters()).device
    order = sorted(range(len(encoded)), key=lambda i: inputs.size(encoded[i]))
    parts = []
    for start in range(0, len(order), EVALUATION_BATCH):
        arguments = inputs.collate([encoded[i] for i in order[start : start + EVALUATION_BATCH]])
        moved = [x.to(device) if isinstance(x, Tensor) else x for x in arguments]
        parts.append(network(*moved).cpu().double().numpy())
        check()
    joined = np.concatenate(parts, axis=-2)
    result = np.empty_like(joined)
    result[..., order, :] = joined
    return result


def seed_of(random_state: Any) -> int:
    """Return the seed of a random state, which an integer is itself."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def start_from(start: Any, network: nn.Module | None, run: str) -> None:
    """Copy the weights of a fitted estimator to a new network, if there are both."""
    if start is None or network is None:
        return
    if start.network_ is None:
        raise ArgumentError("warm_start", run, "a run with a network")
    weights = start.network_.state_dict()
    try:
        require_same_forms(forms_of(weights), forms_of(network.state_dict()))
    except ValueError as error:
        expected = "a run whose network has the sizes of the new one"
        raise ArgumentError("warm_start", run, expected, hint=f"{error}.") from None
    network.load_state_dict(weights)


# How much validation holds out when the user does not say.

FRACTION, LARGEST = 0.1, 0.3  # held out for validation: usually, and at most
ENOUGH = 100  # examples held out, with which kernel and network can be weighed


def validation_fraction(given: float | None, count: int, test: float = 0.0) -> float:
    """Return the fraction of some examples that is held out for validation.

    What the user has not given is a tenth, or as much more as gives 100 examples, up to 0.3, but at
    most half of what the fraction of tests leaves.
    """
    if given is not None:
        return given
    enough = float(np.clip(ENOUGH / max(1, count), FRACTION, LARGEST))
    return min(enough, (1 - test) / 2)
