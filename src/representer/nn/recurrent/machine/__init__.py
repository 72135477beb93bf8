"""The machine that runs every cell of L19 Table 1: filters, directions, streaming."""
