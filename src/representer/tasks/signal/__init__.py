"""Signals: leaving subjects out, training on the others, and what a run is asked afterwards."""
