"""The study's command."""
