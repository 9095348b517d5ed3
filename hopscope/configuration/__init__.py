"""Configuration: a run's settings and identity, and named presets."""
