"""Measures: a few numbers that describe a model on a batch. One function per file, with the file's name."""

from hopscope.measures.base import Observation as Observation, observe as observe
