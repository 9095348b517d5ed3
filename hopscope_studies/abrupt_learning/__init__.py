"""Why in-context classification is learnt abruptly, and when it is not learnt at all (Reddy, 2024). See its README.

Found: Labels of the context are named first, and the induction head forms as the loss falls. With as many distinct
labels as pairs, SGD never learns and Adam always does.
"""
