"""One HTML file that says how good a run is, beside what, on which data, and how to repeat it."""

from representer.report.page import write_report

__all__ = ["write_report"]
