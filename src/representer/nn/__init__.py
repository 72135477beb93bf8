"""Neural cells and layers."""
