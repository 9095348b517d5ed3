"""The bench of architectures: who learns how many hops, at which depth, in how many sequences."""
