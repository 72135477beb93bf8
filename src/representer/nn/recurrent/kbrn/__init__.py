"""The recurrent network with learned activations."""
