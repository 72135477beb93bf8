"""Equations of the papers."""
