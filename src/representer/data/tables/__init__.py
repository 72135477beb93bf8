"""Files and tables of any content: cells by row and column, label maps and stratified splits."""

from representer.data.tables.grid import MISSING, Dropped, Grid, LeftOut, left_out
from representer.data.tables.label_map import LabelMap
from representer.data.tables.reading import read_grid
from representer.data.tables.splits import Split, split

__all__ = [
    "MISSING",
    "Dropped",
    "Grid",
    "LabelMap",
    "LeftOut",
    "Split",
    "left_out",
    "read_grid",
    "split",
]
