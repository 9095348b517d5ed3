"""The bench of architectures: who learns how many hops, at which depth, in how many sequences.

Found: With three layers KV shifting attention learns all of five hops in both seeds, two more than the exact depth of
plain attention allows. It takes about twice the sequences. No model learns a hop below its exact depth. Without a prior
plain attention learns one hop or none. Linear attention learns none, and SwitchHead and others do not reach their depth
in 300 steps.
"""
