"""Execution: an experiment's runs over processes, machines, and GPUs lent for minutes."""
