"""The bench of architectures: who learns how many hops, at which depth, in how many sequences.

Found: With three layers KV shifting attention learns all of five hops in both seeds, two beyond what plain attention can
learn with as many layers at any width; it takes twice the sequences. Nobody learns a hop below its exact depth. Without
a prior plain attention learns one hop or none. Linear attention learns none; SwitchHead and others need more steps.
"""
