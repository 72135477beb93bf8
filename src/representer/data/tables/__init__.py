"""Files and tables of any content: cells by row and column, and the columns that have a role."""

from representer.data.splits import Split, split
from representer.data.tables.columns import MISSING, Dropped, Grid, LabelMap, LeftOut, left_out
from representer.data.tables.reading import read_grid

__all__ = [
    "MISSING", "Dropped", "Grid", "LabelMap", "LeftOut", "Split", "left_out", "read_grid", "split",
]  # fmt: skip
