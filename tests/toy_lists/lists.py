"""Lists of numbers: a classifier, the sum of a small network of each number, and its task."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from representer.data.tables import read_grid
from representer.errors import DataError
from representer.estimators.explanation import NETWORK, Contribution, Explained
from representer.estimators.fitting import Inputs
from representer.estimators.supervised import Classifier
from representer.tasks.flow import EstimatorTask
from representer.tasks.objects import Data, Objects
from representer.tasks.results import Baseline, Facts, majority_class
from toy_lists.task import LISTS, ListParameters


@dataclass(frozen=True)
class ListInputs(Inputs):
    """Standardized numbers, padded to the longest list of a batch."""

    mean: float
    scale: float

    def encode(self, X: Sequence[Any]) -> list[Tensor]:
        return [(torch.tensor(x).float() - self.mean) / self.scale for x in X]

    def collate(self, encoded: Sequence[Tensor], multiple: int = 1) -> tuple[Tensor, Tensor]:
        lengths = torch.tensor([len(x) for x in encoded])
        padded = nn.utils.rnn.pad_sequence(list(encoded), batch_first=True)
        return nn.functional.pad(padded, (0, -padded.shape[1] % multiple)), lengths

    def size(self, encoded: Tensor) -> int:
        return len(encoded)


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of the network."""

    hidden_size: int
    outputs: int


class ListNetwork(nn.Module):
    """y = b + sum_t W_2 relu(W_1 x_t + b_1)."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.first = nn.Linear(1, config.hidden_size)
        self.second = nn.Linear(config.hidden_size, config.outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(config.outputs))

    def parts(self, x: Tensor) -> Tensor:
        """Return what each number adds to the outputs ``(B, T, K)``."""
        return self.second(self.first(x[..., None]).relu())

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Return the outputs ``(B, K)``."""
        mask = torch.arange(x.shape[1], device=x.device) < lengths[:, None].to(x.device)
        return self.bias + (self.parts(x) * mask[..., None]).sum(1)


class ListClassifier(ListParameters, Classifier):
    """A classifier of lists of numbers.

    Examples:
        >>> lists = [[float(k), k % 7] for k in range(60)]
        >>> model = ListClassifier(epochs=1, random_state=0, verbose=0)
        >>> model.fit(lists, ["low"] * 30 + ["high"] * 30).predict(lists[:2]).shape
        (2,)
    """

    noun: ClassVar[str] = "list"
    _task: ClassVar[str] = "lists"
    _inputs: ClassVar[type[ListInputs]] = ListInputs
    inputs_: ListInputs
    _config: ClassVar[type[NetworkConfig]] = NetworkConfig

    def _check_objects(self, X: Any) -> Sequence[Any]:
        lists = [tuple(map(float, x)) for x in X]
        for row, numbers in enumerate(lists):
            if not numbers or not np.isfinite(numbers).all():
                raise DataError(f"X[{row}] is no list of finite numbers")
        return lists

    def learn_inputs(self, objects: Sequence[Any], seed: int) -> ListInputs:
        numbers = np.concatenate([np.array(values) for values in objects])
        return ListInputs(float(numbers.mean()), float(numbers.std() or 1))

    def _configure(self, inputs: ListInputs, width: int) -> NetworkConfig:
        return NetworkConfig(self.hidden_size, width)

    @staticmethod
    def _make(config: NetworkConfig) -> ListNetwork:
        return ListNetwork(config)

    @torch.no_grad()
    def _explain_network(self, one: Any, output: int) -> Explained:
        (x,) = self.inputs_.encode([one])
        logits = self.network_(*self.inputs_.collate([x]))[0]

        def centered(y: Tensor) -> Tensor:
            return y[..., output] - y.mean(-1)

        values = centered(self.network_.parts(x))
        parts = [
            Contribution(f"{number:g}", (t,), NETWORK, float(value))
            for t, (number, value) in enumerate(zip(one, values, strict=True))
        ]
        return float(centered(logits)), float(centered(self.network_.bias)), parts


def is_number(value: Any) -> bool:
    """Return True for a number of a JSON file."""
    return isinstance(value, int | float) and not isinstance(value, bool)


class ListTask(EstimatorTask):
    """The task ``lists``."""

    declared, noun, nouns = LISTS, "list", "lists"
    classifier = ListClassifier

    def read(self, path: str | Path, *, require_labels: bool, **_: Any) -> Objects:
        """Read a JSONL file of objects with ``values`` and ``label``."""
        grid = read_grid(path, ["values"] + ["label"] * require_labels)
        rows = [dict(zip(grid.columns, cells, strict=True)) for cells in grid.rows]
        for line, row in zip(grid.lines, rows, strict=True):
            values = row["values"]
            if not isinstance(values, list) or not values or not all(map(is_number, values)):
                raise DataError("values is no list of numbers", file=path, line=line)
        return Objects(
            source=str(path), labels_file=str(path), objects=[tuple(row["values"]) for row in rows],
            labels=[row.get("label") for row in rows], lines=grid.lines, files=(Path(path),),
            label_column="label",
        )  # fmt: skip

    def demo(self) -> Objects:
        """Return random lists; the label says whether the sum of squares is large."""
        rng = random.Random(0)
        lists = [[rng.gauss(0, 1) for _ in range(rng.randint(2, 6))] for _ in range(200)]
        labels = ["up" if sum(x * x for x in values) > 3 else "down" for values in lists]
        return Objects("200 random lists", "200 random lists", lists, labels, range(1, 201))

    def describe(self, config: Any, data: Data) -> Facts:
        """Return the lengths of the lists, for the report."""
        lengths = [len(values) for values in data.parts["train"].objects]
        return Facts({"numbers per list": f"{min(lengths)} to {max(lengths)}"})

    def baselines(self, config: Any, data: Data) -> list[Baseline]:
        """Return the most frequent class."""
        return [majority_class(data.values["train"].tolist(), len(data.parts["test"]))]


FLOW = ListTask()
fit, evaluate, predict, explain = FLOW.fit, FLOW.evaluate, FLOW.predict, FLOW.explain
