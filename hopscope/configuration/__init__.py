"""Configuration: what makes a run the run it is, and the settings that have a name."""
