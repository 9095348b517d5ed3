"""Readings: measurements inside a language model, which studies provide as plug-ins."""
