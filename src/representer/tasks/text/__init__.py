"""Text classification from a table of texts and labels to a described model."""
