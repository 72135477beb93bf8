"""Serve a trained model over HTTP; needs the extra ``serve``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from representer.serving.limits import Limits

if TYPE_CHECKING:
    from representer.serving.app import create_app
    from representer.serving.served_model import ServedModel

__all__ = ["Limits", "ServedModel", "create_app"]
# options need neither FastAPI nor torch, which a server loads in the process of the model
_LATER = {
    "ServedModel": "representer.serving.served_model",
    "create_app": "representer.serving.app",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'representer.serving' has no attribute {name!r}")
