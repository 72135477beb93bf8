"""Goals for GPUs, with the predictions made before any measurement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_cases import ONE_PASS, STEPWISE
from gpu_steps import CAPTURED, EAGER

FORWARD, TRAINING = "forward", "forward and backward"


@dataclass(frozen=True)
class Goal:
    """A ratio of times to reach, in the cases of a section that it takes.

    Attributes:
        what: The comparison, for a reader.
        section: Section of the benchmark.
        ours: Name of the layer.
        baseline: Name of the layer that it is compared with.
        mode: Passes that are timed.
        clock: ``"graph"`` or ``"eager"``.
        least: Lowest acceptable ratio.
        good: Ratio of a good kernel.
        predicted: The range that was expected before the first measurement.
        takes: Given size and dtype, returns True if a case belongs to the goal.
    """

    what: str
    section: str
    ours: str
    baseline: str
    mode: str
    clock: str
    least: float
    good: float
    predicted: str
    takes: Callable[[Sequence[int], str], bool] = lambda size, dtype: True

    def ratios(self, rows: Sequence[dict[str, Any]]) -> list[float]:
        """Return the ratio of medians in each case of this goal that was timed."""
        times: dict[tuple[Any, ...], dict[str, float]] = {}
        for row in rows:
            is_same = row["section"] == self.section and "median" in row
            if is_same and (row["mode"], row["clock"]) == (self.mode, self.clock):
                case = times.setdefault((*row["size"], row["dtype"]), {})
                case[row["layer"]] = row["median"]
        return [
            time[self.baseline] / time[self.ours]
            for (*size, dtype), time in times.items()
            if {self.baseline, self.ours} <= time.keys() and self.takes(size, dtype)
        ]


def _is_long(size: Sequence[int], dtype: str) -> bool:
    T, B, features, d = size
    return dtype == "bfloat16" and features == d and T >= 128 and B * d <= 42_000


def _is_short(size: Sequence[int], dtype: str) -> bool:
    return dtype == "bfloat16" and size[0] == 35


def _is_standard(size: Sequence[int], dtype: str) -> bool:
    return dtype == "bfloat16" and size[1] <= 32 and size[3] in (300, 650, 1150)


def _is_persistent(size: Sequence[int], dtype: str) -> bool:
    return dtype == "float16" and size[3] in (512, 768, 1024)


def _is(*expected: int) -> Callable[[Sequence[int], str], bool]:
    return lambda size, dtype: tuple(size) == expected


def goals() -> list[Goal]:
    """Return all goals."""
    string, rkm, lstm = "StringKernelRNN", "RKMLSTM", "nn.LSTM"
    of_string = "String-kernel layer, gate on x, over `nn.LSTM`, bfloat16"
    of_rkm = "RKM-LSTM over `nn.LSTM`, bfloat16, 300 to 1,150 units, up to 32 sequences"
    layers, learned, activation = "recurrent", "learned recurrent", "KernelActivation"
    is_large = _is(4096, 1024, 100)
    many = "4.2 million activations with 100 centers over the direct sum"
    graph = "WL network over GINEConv, 256 molecules"
    return [
        Goal(
            f"{of_string}: 128 steps or more, up to 42,000 states",
            layers, string, lstm, TRAINING, "graph", 10, 30, "10 to 80", _is_long,
        ),
        Goal(
            f"{of_string}: 35 steps",
            layers, string, lstm, TRAINING, "graph", 8, 20, "18 to 42", _is_short,
        ),
        Goal("The same", layers, string, lstm, TRAINING, "eager", 2, 4, "2 to 4", _is_short),
        Goal(
            f"{of_string}: 1,024 × 128 × 1,150",
            layers, string, lstm, TRAINING, "graph", 3, 6, "3 to 10", _is(1024, 128, 1150, 1150),
        ),
        Goal(
            "String-kernel layer over `nn.GRU`, 10 features, 100 units, 1,000 steps × 64",
            layers, string, "nn.GRU", TRAINING, "graph", 3, 10, "10 to 40", _is(1000, 64, 10, 100),
        ),
        Goal(
            of_rkm,
            layers, rkm, lstm, FORWARD, "graph", 2, 3.5,
            "1.5 to 3", _is_standard,
        ),
        Goal(
            "The same",
            layers, rkm, lstm, TRAINING, "graph", 1.5, 2.5,
            "1.3 to 2.5: weights on the chip both ways", _is_standard,
        ),
        Goal(
            "RKM-LSTM over `nn.LSTM` where cuDNN keeps the weights on the chip: float16, 512, 768 "
            "and 1,024 units",
            layers, rkm, lstm, FORWARD, "graph", 0.7, 1, "0.5 to 0.7", _is_persistent,
        ),
        Goal(
            "RKM-LSTM over its loop in torch",
            layers, rkm, STEPWISE, FORWARD, "eager", 20, 50, "15 to 40", _is_standard,
        ),
        Goal("The same", layers, rkm, STEPWISE, FORWARD, "graph", 2, 4, "5 to 15", _is_standard),
        Goal(
            "Gated scan, 1,024 steps × 16 × 128 units, over `chunk_hgrn` of fla",
            "scans", "gated_scan", "fla chunk_hgrn", FORWARD, "graph", 3, 6,
            "4 to 7: 32 chunks, two passes", _is(1024, 16, 128),
        ),
        Goal(
            "The same, over one pass without chunks",
            "scans", "gated_scan", ONE_PASS, FORWARD, "graph", 2, 4, "2 to 3", _is(1024, 16, 128),
        ),
        Goal(
            "Training step of a language model, 35 × 20 tokens, 200 units, from a CUDA graph over "
            "the same launched from Python",
            "training steps", CAPTURED, EAGER, TRAINING, "eager", 1.5, 3, "1.5 to 4",
        ),
        Goal(
            many,
            "activations", activation, "direct sum", TRAINING, "graph", 30, 80, "30 to 60",
            is_large,
        ),
        Goal(
            f"{many}, compiled",
            "activations", activation, "direct sum, compiled", TRAINING, "graph", 1.5, 3, "1 to 2",
            is_large,
        ),
        Goal(
            "Network with learned activations over its loop, 50 steps",
            learned, "KBRN", "step by step", TRAINING, "eager", 20, 60,
            "3 to 5: one program normalizes the batch, and sums over all centers",
        ),
        Goal(graph, "graphs", "WLKernelNN", "GINEConv", TRAINING, "eager", 3, 6, "1 to 2"),
        Goal(
            f"{graph}, compiled",
            "graphs", "WLKernelNN", "GINEConv, compiled", TRAINING, "eager", 1.3, 2.5, "0.5 to 1",
        ),
    ]  # fmt: skip
