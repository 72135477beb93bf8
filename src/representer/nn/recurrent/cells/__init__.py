"""The cells of L19 as layers, and its Table 1."""
