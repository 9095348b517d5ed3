"""The bench of architectures: who learns how many hops, at which depth, in how many sequences.

Found: With three layers KV shifting attention learns all of five hops in three seeds of three, two more than the exact
depth of plain attention allows, and once all of six. For hops that both learn it takes about twice as many sequences.
No model learns a hop below its exact depth, in 144 runs that were asked for one. Without a prior plain attention learns
one hop or none. Linear attention learns none, and SwitchHead and others do not reach their depth in 300 steps.
"""
