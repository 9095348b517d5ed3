"""Export of circuits to other tools."""
