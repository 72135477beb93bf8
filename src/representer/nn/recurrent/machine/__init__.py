"""The implementation of all cells of L19 Table 1."""
