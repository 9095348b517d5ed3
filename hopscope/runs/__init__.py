"""Runs on disk: trained here, built by hand, or imported; and the numbers that they are reported with."""
