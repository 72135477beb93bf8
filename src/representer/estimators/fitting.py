"""Training and evaluating a network on encoded objects."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from representer.data.copies import FEW_DIFFER
from representer.data.tables import split
from representer.errors import ArgumentError, DataError, say
from representer.estimators.parameters import AUTO, TrainingParameters, in_common
from representer.estimators.targets import Classes, Numbers, Target, require_same_length
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
        """Return the pure function from an epoch to its batches of positions."""
        ...


class Examples(NamedTuple):
    """Encoded objects and encoded targets, of one length, and the weights of the targets."""

    objects: Sequence[Any]
    values: NDArray[Any]
    weights: NDArray[np.float64] | None = None  # (N, K)


def shuffled(
    encoded: Sequence[Any], batch_size: int, seed: int
) -> Callable[[int], Sequence[Sequence[int]]]:
    """Return the function from an epoch to batches in random order; see `Inputs.batches`."""

    def batches(epoch: int) -> list[list[int]]:
        order = generators.generator(seed, epoch)
        rows = torch.randperm(len(encoded), generator=order).tolist()
        return [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]

    return batches


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


# The rows that validation holds out when the user gives none.

FINAL = "final"
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


def random_parts(
    labels: Sequence[str] | None, count: int, fractions: Sequence[float], seed: int, digests: Any
) -> list[list[int]]:
    """Return the rows of each part, the first one for training.

    Classes keep their proportions. Rows with equal digests stay together, unless there are so few
    different ones that a part would be empty, with a notice.
    """
    if len(np.unique(digests)) < len(digests):
        try:
            return list(split(labels or [""] * count, fractions, seed, digests))
        except DataError:
            say(FEW_DIFFER)
    if labels is not None:
        return list(split(labels, fractions, seed))
    order = np.random.default_rng(generators.derive(seed, "split")).permutation(count)
    counts = [max(1, round(share * count)) for share in fractions[1:]]
    if sum(counts) > count - 2:
        problem = f"{count} rows cannot be divided into {len(fractions)} parts"
        raise DataError(problem, fix="Add data.")
    parts = np.split(order, np.cumsum(counts))
    return [sorted(part.tolist()) for part in (parts[-1], *parts[:-1])]


def divide(
    target: Target, values: NDArray[Any], groups: Any, fraction: float, seed: int, digests: Any = ()
) -> tuple[list[int], list[int]]:
    """Return the rows to train on and to validate on.

    Classes keep their proportions in both parts. With `groups`, whole groups are held out, so that
    no group, such as a subject or a document, is in both, and objects that equal one to train on
    are left out of the held out ones; without groups, equal objects stay together.
    """
    if groups is not None:
        train, valid = _by_groups(target, values, groups, fraction, seed)
        return train, without_copies(valid, train, digests)
    if isinstance(target, Classes):
        labels = [str(value) for value in values]
        train, valid = random_parts(labels, len(labels), (1 - fraction, fraction), seed, digests)
        return train, valid
    missing = np.isnan(values.reshape(len(values), -1)).all(1)
    known = np.flatnonzero(~missing)  # a row without any target has nothing to learn from
    if len(known) < 3:
        raise DataError(f"X has {len(known)} rows with a target; at least 3 are needed")
    own = digests[known] if len(digests) else ()
    parts = random_parts(None, len(known), (1 - fraction, fraction), seed, own)
    train, valid = (known[part].tolist() for part in parts)
    return train, valid


def without_copies(rows: list[int], others: list[int], digests: Any) -> list[int]:
    """Return the rows that equal none of the others; all, with a notice, if no row is left."""
    if not len(digests) or not (copies := np.isin(digests[rows], digests[others])).any():
        return rows
    say(
        "the objects of the held out groups equal others: figures are too good"
        if copies.all()
        else f"{copies.sum()} held out objects equal some of other groups, and are left out"
    )
    return rows if copies.all() else np.asarray(rows)[~copies].tolist()


def _by_groups(
    target: Target, values: NDArray[Any], groups: Any, fraction: float, seed: int
) -> tuple[list[int], list[int]]:
    require_same_length(values, groups, "groups")
    own = [str(group) for group in groups]
    names = list(dict.fromkeys(own))
    if len(names) < 2:
        raise DataError(f"groups has one group, {names[0]!r}; validation needs another one")
    is_class = isinstance(target, Classes)
    labels = values if is_class else np.zeros(len(own), dtype=np.int64)
    held_out = held_out_groups(labels, np.asarray(own), names, fraction, seed, FINAL)
    train = [row for row in range(len(own)) if own[row] not in held_out]
    for number, name in enumerate(target.names) if is_class else ():
        if (labels == number).any() and not (labels[train] == number).any():
            problem = f"all examples of the class {name!r} are in one group"
            raise DataError(problem, fix="Add groups with this class, or leave it out.")
    return train, [row for row in range(len(own)) if own[row] in held_out]


def held_out_groups(
    labels: NDArray[Any], groups: NDArray[Any], names: Sequence[str], fraction: float, seed: int,
    purpose: str,
) -> set[str]:  # fmt: skip
    """Return the groups held out for validation, in proportion from each kind of group.

    Two groups are of one kind if they have the same classes. More than the fraction is held out
    where that alone has all classes. A group that alone has a class is held out only if there is no
    other. At least one of two or more groups is held out; other purposes have other choices.
    """
    kinds = groups_by_classes(labels, groups, names, seed, purpose)
    count = max(1, round(fraction * len(names)))
    keyed = [
        ((rank + 0.5) / len(of_kind), group)
        for of_kind in kinds.values()
        for rank, group in enumerate(of_kind)
    ]
    order = [group for _, group in sorted(keyed, key=lambda k: k[0])]
    classes = {group: set(kind) for kind, of_kind in kinds.items() for group in of_kind}
    holders = Counter(kind for own in classes.values() for kind in own)  # of those not chosen
    covered, chosen = set[int](), set[str]()
    for group in order:
        is_needed = len(chosen) < count or not classes[group] <= covered
        if is_needed and all(holders[kind] > 1 for kind in classes[group]):
            chosen.add(group)
            covered |= classes[group]
            holders.subtract(classes[group])
    return chosen or set(order[:1])


def groups_by_classes(
    labels: NDArray[Any], groups: NDArray[Any], names: Sequence[str], seed: int, purpose: str
) -> dict[tuple[int, ...], list[str]]:
    """Return groups in random order by the classes that they have; see `held_out_groups`."""
    rng = np.random.default_rng(generators.derive(seed, "subjects", purpose))
    kinds: dict[tuple[int, ...], list[str]] = {}
    for group in rng.permutation(np.asarray(names, dtype=object)).tolist():
        classes = np.unique(labels[groups == group])
        kinds.setdefault(tuple(classes.tolist()), []).append(group)
    return kinds
