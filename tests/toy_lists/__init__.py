"""An example of a package with a task of its own: classification of lists of numbers."""
