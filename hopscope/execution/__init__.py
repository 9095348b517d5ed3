"""Execution: an experiment's runs over several processes, over machines, and on GPUs in stacks."""
