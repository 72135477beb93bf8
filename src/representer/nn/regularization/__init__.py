"""Regularization of recurrent networks: dropout with locked masks, of words and of weights."""
