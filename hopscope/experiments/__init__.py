"""The frame of experiments, and what those of several studies share. Experiments themselves stand in studies."""
