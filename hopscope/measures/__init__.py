"""Measures: what can be said of a model on a batch in a few numbers. One function per file, named like it."""

from hopscope.measures.base import Observation, observe

__all__ = ["Observation", "observe"]
