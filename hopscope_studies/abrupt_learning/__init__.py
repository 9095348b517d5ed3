"""Why in-context classification is learnt abruptly, and when it is not learnt at all (Reddy, 2024). See its README.

Found: A model first names labels of the context at random, and the induction head forms as the loss then falls. If the
labels of a sequence all differ, SGD never learns and Adam always does.
"""
