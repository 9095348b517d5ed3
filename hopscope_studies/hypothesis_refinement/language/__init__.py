"""Domains of hypothesis refinement that are the study's own, beside the laboratory's lists and lights."""
