"""Circuits of models from elsewhere: a module in memory with the caller's tensors and loss, without a run folder."""
