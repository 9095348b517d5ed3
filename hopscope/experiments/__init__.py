"""The frame of experiments, and what experiments of several studies share. Experiments themselves are in studies."""
