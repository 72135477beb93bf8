"""A classifier of lists of numbers: the sum of a small network of each number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from representer.errors import DataError
from representer.estimators.explanation import NETWORK, Contribution
from representer.estimators.fitting import shuffled
from representer.estimators.pool import Explained
from representer.estimators.supervised import Classifier
from representer.storage.files import from_values
from toy_lists.task import ListParameters


@dataclass(frozen=True)
class ListInputs:
    """Standardized numbers, padded to the longest list of a batch."""

    mean: float
    scale: float

    def encode(self, X: Sequence[Any]) -> list[Tensor]:
        return [(torch.tensor(x).float() - self.mean) / self.scale for x in X]

    def collate(self, encoded: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        lengths = torch.tensor([len(x) for x in encoded])
        return nn.utils.rnn.pad_sequence(list(encoded), batch_first=True), lengths

    def size(self, encoded: Tensor) -> int:
        return len(encoded)

    def batches(
        self, encoded: Sequence[Tensor], batch_size: int, seed: int
    ) -> Callable[[int], Sequence[Sequence[int]]]:
        return shuffled(encoded, batch_size, seed)


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
        return self.second(self.first(x[..., None]).relu())

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        mask = torch.arange(x.shape[1], device=x.device) < lengths[:, None].to(x.device)
        return self.bias + (self.parts(x) * mask[..., None]).sum(1)


class ListClassifier(ListParameters, Classifier):
    """A classifier of lists of numbers."""

    noun: ClassVar[str] = "list"
    _task: ClassVar[str] = "lists"
    inputs_: ListInputs
    _config: ClassVar[type[NetworkConfig]] = NetworkConfig

    def _check_objects(self, X: Any) -> Sequence[Any]:
        lists = [tuple(map(float, x)) for x in X]
        for row, one in enumerate(lists):
            if not one or not np.isfinite(one).all():
                raise DataError(f"X[{row}] is no list of finite numbers")
        return lists

    def learn_inputs(self, objects: Sequence[Any], seed: int) -> ListInputs:
        numbers = np.concatenate([np.array(one) for one in objects])
        return ListInputs(float(numbers.mean()), float(numbers.std() or 1))

    def _configure(self, inputs: ListInputs, width: int) -> NetworkConfig:
        return NetworkConfig(self.hidden_size, width)

    @staticmethod
    def _make(config: NetworkConfig) -> ListNetwork:
        return ListNetwork(config)

    def _save_inputs(self, run: Any) -> dict[str, Any]:
        return asdict(self.inputs_)

    def _load_inputs(self, files: Any, values: Any) -> ListInputs:
        return from_values(ListInputs, values)

    @torch.no_grad()
    def _explain_network(self, one: Any, output: int) -> Explained:
        (x,) = self.inputs_.encode([one])
        logits = self.network_(*self.inputs_.collate([x]))[0]

        def centered(y: Tensor) -> Tensor:
            return y[..., output] - y.mean(-1)

        values = centered(self.network_.parts(x))
        parts = [
            Contribution(f"{value:g}", (t,), NETWORK, float(own))
            for t, (value, own) in enumerate(zip(one, values, strict=True))
        ]
        return float(centered(logits)), float(centered(self.network_.bias)), parts
