"""Training, run folders, baselines and reports."""
