"""Models: a frozen configuration and a Module each."""
