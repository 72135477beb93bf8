"""Properties of molecules: from a table of SMILES and values to a described model."""
