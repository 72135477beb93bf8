"""A recording as a table: a row is a sample, a column a channel or the time."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from representer.data.tables.columns import plain
from representer.data.tables.grid import number_of, text_of
from representer.data.tables.reading import read_blocks
from representer.data.tables.roles import data_columns
from representer.errors import DataError

_TIME = re.compile(r"time(stamp)?s?(_.*)?")
_SLOWEST, _FASTEST = 1.0, 20_000.0  # Hz
_UNITS = {"s": 1.0, "ms": 1e-3}


@dataclass(frozen=True)
class SampleTable:
    """The samples of one recording.

    Attributes:
        path: The file.
        signals: ``(C, T)``, float32.
        channels: Names of the channels.
        times: ``(T,)``, in the unit of the file, NaN where a cell is no number; empty if there are
            none.
    """

    path: Path
    signals: np.ndarray
    channels: list[str]
    times: np.ndarray

    @classmethod
    def read(cls, path: Path) -> SampleTable:
        """Read a table; columns whose names begin with time or timestamp are no channels.

        Raises:
            DataError: If the file cannot be read, or a sample is not a finite number.
        """
        blocks, channels, names = [], list[int](), list[str]()
        for grid in read_blocks(path, []):
            columns = data_columns(grid)
            clocks = [at for at in columns if _TIME.fullmatch(plain(grid.columns[at]))][:1]
            channels = [at for at in columns if not _TIME.fullmatch(plain(grid.columns[at]))]
            cells = [[row[at] for at in (*channels, *clocks)] for row in grid.rows]
            block = np.array([[_number(cell) for cell in row] for row in cells])
            for row, at in np.argwhere(~np.isfinite(block[:, : len(channels)]))[:1].tolist():
                raise DataError(
                    f"{text_of(cells[row][at])!r:.60} is not a finite number",
                    file=path,
                    line=grid.lines[row],
                    column=grid.columns[channels[at]],
                    fix="Interpolate the sample, or remove the column if it is no channel.",
                )
            names = [grid.columns[at] for at in channels]
            blocks.append(block)
        table = np.concatenate(blocks).T
        signals = table[: len(channels)].astype(np.float32)
        return cls(path, signals, names, table[len(channels) :].ravel())

    def sampling_rate(self, listing: Path) -> tuple[float, str]:
        """Return the sampling rate in Hz by the times, and their unit.

        It is that of the median difference and of all differences near it, since times may be
        rounded. The unit is seconds or milliseconds, if one of them alone gives 1 to 20,000 Hz.

        Args:
            listing: The table to which ``fs`` can be added, for messages.

        Raises:
            DataError: If there are no times, or their unit is not clear.
        """
        steps = np.diff(self.times)
        step = float(np.median(steps)) if steps.size else math.nan
        problem = "the sampling rate is unknown, since the table has no column of increasing times"
        if step > 0:
            step = float(steps[np.abs(steps - step) <= step / 2].mean())
            rates = {unit: 1 / (step * seconds) for unit, seconds in _UNITS.items()}
            likely = [(rate, unit) for unit, rate in rates.items() if _SLOWEST <= rate <= _FASTEST]
            if len(likely) == 1:
                ((rate, unit),) = likely
                return round(rate, 1) if rate < 100 else float(round(rate)), unit
            shown = " or ".join(f"{rate:.4g} Hz if in {unit}" for unit, rate in rates.items())
            problem = f"the times are {step:.4g} apart, which is {shown}"
        fix = f"Add a column fs with the sampling rate in Hz to {listing.name}."
        raise DataError(problem, file=self.path, fix=fix)


def _number(cell: object) -> float:
    number = number_of(cell)
    return math.nan if number is None else number
