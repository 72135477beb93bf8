"""Signals: leave-subjects-out training, evaluation, and use of trained models."""
