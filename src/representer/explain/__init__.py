"""Which references matched, and where."""
