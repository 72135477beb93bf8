"""HTML reports of runs: results, baselines, data, and how to reproduce them."""

from representer.report.page import write_report

__all__ = ["write_report"]
