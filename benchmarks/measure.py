"""Run the cases: every layer at every size, one step, and the torch backend alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import torch
from torch import nn

from cases import (
    BY_INDEX,
    FORWARD,
    HAS_STREAMS,
    IN_SUCCESSION,
    IN_TURN,
    OURS,
    READING,
    SIZES,
    SMALL,
    STEP,
    STREAM,
    TRAINING,
    UNBOUND,
    WITHOUT_CORE,
    layers,
    operations,
    reading,
    run,
    step,
    stream,
)
from machine import measure_limits
from representer.nn import TABLE1
from representer.ops import use_backend
from results import ONE_THREAD, STEPS, TORCH, Key, Measured, Results, modes_of
from timing import Candidate, Rounds, interleave
from verify import verify, verify_step

STEP_MODES = {IN_SUCCESSION: (200, 1), IN_TURN: (1, 20)}  # steps in a run, rounds by the repeats


def clock(threads: int) -> Callable[[], float]:
    """Return process CPU time for one thread, the wall clock for more."""
    return time.process_time if threads == 1 else time.perf_counter


def measure(
    cases: list[str], threads: int, repeats: int, slow_repeats: int, results: Results
) -> Iterator[Key]:
    """Measure the cases in order, yielding the key of each once it is in ``results``.

    Raises:
        SystemExit: If a kernel differs from the torch backend.
    """
    torch.set_num_threads(threads)
    results.limits[threads] = measure_limits(threads, repeats)
    for case in cases:
        if case in SIZES:
            yield from _measure_size(case, threads, repeats, slow_repeats, results)
        elif threads == 1 and case == STEPS:
            verify_step()
            for mode, (calls, rounds) in STEP_MODES.items():
                rounds *= repeats
                yield _store(results, (1, STEPS, mode), _steps(calls), rounds, rounds, {})
        elif threads == 1 and case == TORCH:
            yield from _measure_torch(repeats, results)


def _measure_size(
    case: str, threads: int, repeats: int, slow_repeats: int, results: Results
) -> Iterator[Key]:
    size = SIZES[case]
    verify(size)
    made = layers(size, eager=threads == 1)
    for mode in modes_of(case, SMALL if threads == 1 else ()):
        candidates = [
            Candidate(name, run(layer, size, mode), name in (BY_INDEX, UNBOUND))
            for name, layer in made.items()
        ]
        if threads > 1:
            candidates += [
                Candidate(name + ONE_THREAD, _on_one_thread(run(made[name], size, mode), threads))
                for name in ("nn.LSTM", OURS[0])
            ]
        counted = {name: operations(layer, size, mode) for name, layer in made.items()}
        counted = {name: count for name, count in counted.items() if count}
        yield _store(results, (threads, case, mode), candidates, repeats, slow_repeats, counted)


def _measure_torch(repeats: int, results: Results) -> Iterator[Key]:
    size = WITHOUT_CORE
    made = {name: layer for name, layer in layers(size).items() if name != "nn.GRU"}
    for mode in (FORWARD, TRAINING):
        with use_backend("reference"):
            candidates = [Candidate(name, run(layer, size, mode)) for name, layer in made.items()]
            yield _store(results, (1, TORCH, mode), candidates, repeats, repeats, {})


def _steps(calls: int) -> list[Candidate]:
    m, d = STEP.features, STEP.units
    made: dict[str, nn.Module] = {"nn.LSTM": nn.LSTM(m, d), "nn.LSTMCell": nn.LSTMCell(m, d)}
    ours = {name: TABLE1[name](m, d) for name in OURS}
    found = [Candidate(name, step(layer, calls)) for name, layer in (made | ours).items()]
    if HAS_STREAMS:
        found += [Candidate(name + STREAM, stream(layer, calls)) for name, layer in ours.items()]
    return [*found, Candidate(READING, reading(calls))]


def _store(
    results: Results,
    key: Key,
    candidates: list[Candidate],
    repeats: int,
    slow_repeats: int,
    counted: dict[str, float],
) -> Key:
    before = os.getloadavg()[0]
    rounds: Rounds = interleave(candidates, clock(key[0]), repeats, slow_repeats)
    results.measured[key] = Measured(rounds, counted, (before, os.getloadavg()[0]))
    return key


def _on_one_thread(do: Callable[[], object], threads: int) -> Callable[[], object]:
    def run_on_one() -> None:
        torch.set_num_threads(1)
        do()
        torch.set_num_threads(threads)

    return run_on_one
