"""Benchmarks with free-form answers, such as the rules of a function; one per file."""
