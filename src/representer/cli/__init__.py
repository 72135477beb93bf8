"""The command line. Commands only; the logic is in tasks."""
