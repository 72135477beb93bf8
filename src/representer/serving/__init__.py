"""Serve a trained model over HTTP; needs the extra ``serve``."""

from representer.serving.app import create_app
from representer.serving.limits import Limits
from representer.serving.served_model import ServedModel

__all__ = ["Limits", "ServedModel", "create_app"]
