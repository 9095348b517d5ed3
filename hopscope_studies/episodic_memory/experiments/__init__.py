"""Experiments of the study `episodic_memory`."""
