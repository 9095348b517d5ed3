"""Benchmarks whose answers are texts of their own, such as the rules of a function: one per file."""
