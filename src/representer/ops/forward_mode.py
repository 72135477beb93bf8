"""Forward-mode AD, whose tangents no operator propagates."""

from __future__ import annotations

from torch.autograd import forward_ad

from representer.errors import BackendError


def is_forward_mode() -> bool:
    """Return True inside a level of forward-mode AD."""
    return forward_ad._current_level >= 0


def check_no_forward_mode(name: str) -> None:
    """Check that an operator cannot silently drop tangents.

    Raises:
        BackendError: Inside a level of forward-mode AD.
    """
    if is_forward_mode():
        function = name.removesuffix("_backward")
        raise BackendError(
            f"representer::{name} has no forward-mode derivative; inside jvp, jacfwd or dual_level "
            f'call representer.ops.{function}(..., backend="reference") or its layer.'
        )
