"""Reading and preparing data: text, signals, graphs."""
