"""The experiments of the papers, one module a table."""
