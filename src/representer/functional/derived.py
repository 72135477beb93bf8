"""Fields of the descriptions of cells and chains that follow from others."""

from __future__ import annotations

from functools import cached_property


def compute_cached(owner: object) -> None:
    """Compute the cached properties of an object's class.

    Later is too late: torch.compile reads a cached property, but cannot compute it.
    """
    for name, own in vars(type(owner)).items():
        if isinstance(own, cached_property):
            getattr(owner, name)
