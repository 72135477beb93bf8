"""The recurrent network of learned activations."""
