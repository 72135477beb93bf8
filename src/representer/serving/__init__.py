"""Serve a trained model over HTTP; needs the extra ``serve``."""

from typing import TYPE_CHECKING, Any

from representer.serving.app import create_app
from representer.serving.limits import Limits

if TYPE_CHECKING:
    from representer.serving.served_model import ServedModel

__all__ = ["Limits", "ServedModel", "create_app"]


def __getattr__(name: str) -> Any:
    if name == "ServedModel":  # needs torch, which a server loads in the process of the model
        from representer.serving.served_model import ServedModel

        return ServedModel
    raise AttributeError(f"module 'representer.serving' has no attribute {name!r}")
