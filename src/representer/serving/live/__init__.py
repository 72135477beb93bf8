"""The live view: a page that explains what is typed or chosen, on this machine alone."""

from representer.estimators.explanation import Example
from representer.serving.live.view import LiveView, create_live_app

__all__ = ["Example", "LiveView", "create_live_app"]
