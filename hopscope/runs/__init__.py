"""Runs on disk: trained here, built by hand or imported; and the numbers reported about them."""
