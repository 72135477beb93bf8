"""The network of the string kernel."""
