"""Which heads of a language model do the hops: measured, knocked out, and cut down to a minimal set."""
