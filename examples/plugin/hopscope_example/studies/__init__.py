"""Studies, one folder each."""
