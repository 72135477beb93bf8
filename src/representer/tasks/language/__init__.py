"""Language models: fit, evaluate, generate."""
