"""Declarations: parameters, options and the `Task` of each kind of data. Free of torch."""
