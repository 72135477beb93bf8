"""Regularization of recurrent networks: dropout that holds one mask, and of words and weights."""
