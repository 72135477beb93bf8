"""Columns with a fixed meaning, such as the two ends of an edge, found by name or position."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from representer.data.tables.columns import by_name, plain
from representer.data.tables.grid import Grid
from representer.data.tables.suggest import listing
from representer.errors import DataError

_INDEX = {"", "unnamed:_0", "__index_level_0__"}  # names of the row numbers that pandas writes


def data_columns(grid: Grid) -> list[int]:
    """Return the positions of all columns but the index of a data frame."""
    return [at for at, name in enumerate(grid.head) if plain(name) not in _INDEX]


def find_roles(
    grid: Grid,
    roles: Mapping[str, Collection[str]],
    path: str | Path,
    *,
    optional: Collection[str] = (),
) -> dict[str, int]:
    """Return the position of the column of each role.

    A column has a role by its name; the roles without such a column have the first columns that
    are left, in order.

    Args:
        grid: The cells.
        roles: Names of the column of each role, see `plain`. The role itself is the first choice.
        path: The file, for messages.
        optional: Roles that need no column. They are found by name only.

    Raises:
        DataError: If several columns have a name of one role, or no column is left for one.
    """
    places: dict[str, int] = {}
    for role, known in roles.items():
        found = by_name(grid, range(len(grid.columns)), known, role)
        if len(found) > 1:
            listed = listing([grid.columns[at] for at in found])
            fix = f"Rename the one to use to {role!r}, or remove the others."
            raise DataError(f"several columns could be the {role}: {listed}", file=path, fix=fix)
        if found:
            places[role] = found[0]
    free = [at for at in data_columns(grid) if at not in places.values()]
    for role in roles:
        if role not in places and role not in optional:
            if not free:
                problem = f"no column is left for the {role}; the columns are {listing(grid.head)}"
                raise DataError(problem, file=path, fix=f"Add a column {role!r}.")
            places[role] = free.pop(0)
    return {role: places[role] for role in roles if role in places}
