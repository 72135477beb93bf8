"""Classification and regression of graphs."""
