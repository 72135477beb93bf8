"""What each task declares: parameters, options, and its `Task`. Free of torch."""
