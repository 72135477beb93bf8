"""Clocks of a GPU: calls from Python, replays of captured graphs, and the kernels that ran."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def eager_seconds(call: Callable[[], object], calls: int) -> float:
    """Return the seconds of a call among several with one synchronization."""
    synchronize()
    started = time.perf_counter()
    for _ in range(calls):
        call()
    synchronize()
    return (time.perf_counter() - started) / calls


def graph_of(call: Callable[[], object], calls: int) -> Callable[[], object] | str:
    """Return the replay of a captured graph of several calls, or why there is none."""
    if not torch.cuda.is_available():
        return "needs a CUDA device"
    try:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            call()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                call()
    except RuntimeError as error:
        torch.cuda.synchronize()
        return str(error).splitlines()[0]
    return graph.replay


def microseconds(numbers: list[float]) -> dict[str, float]:
    """Return the median and the 20th and 80th percentiles of seconds, in microseconds."""
    ordered = sorted(numbers)
    low, high = ordered[len(ordered) // 5], ordered[-1 - len(ordered) // 5]
    median = statistics.median(ordered)
    return {"median": 1e6 * median, "p20": 1e6 * low, "p80": 1e6 * high}


def interleaved(
    candidates: dict[str, Callable[[], object]],
    repeats: int,
    clocks: Sequence[str] = ("eager", "graph"),
) -> Iterator[Any]:
    """Yield ``(name, clock, result)`` of every candidate, timed in turns.

    The clocks are ``eager``, calls from Python with one synchronization, and ``graph``, replays of
    a captured graph. The first candidate is timed twice: the difference is the noise.
    """
    first = next(iter(candidates))
    ways = {(name, "eager"): (call, 3) for name, call in candidates.items()}
    ways[f"{first} again", "eager"] = (candidates[first], 3)
    for name, call in candidates.items():
        call()
        if "graph" not in clocks:
            continue
        replay = graph_of(call, 3)
        if isinstance(replay, str):
            yield name, "graph", replay
        else:
            ways[name, "graph"] = (replay, 1)
    seconds: dict[tuple[str, str], list[float]] = {way: [] for way in ways}
    for number in range(repeats):
        order = list(ways.items())
        for way, (call, calls) in [*order[number % len(ways) :], *order[: number % len(ways)]]:
            of_one = 3 if way[1] == "graph" else 1
            seconds[way].append(eager_seconds(call, calls) / of_one)
    for (name, clock), numbers in seconds.items():
        yield name, clock, microseconds(numbers)


def kernel_names(call: Callable[[], object]) -> list[str]:
    """Return the names of the kernels that a call launches, the slowest first."""
    if not torch.cuda.is_available():
        return []
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        call()
        torch.cuda.synchronize()
    events = sorted(profile.key_averages(), key=lambda e: -e.self_device_time_total)
    return [event.key[:60] for event in events[:3]]


def peak_memory(call: Callable[[], object]) -> float | None:
    """Return the most memory that a call takes beyond what is there already, in MiB."""
    if not torch.cuda.is_available():
        return None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20
