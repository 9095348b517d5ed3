"""Why in-context classification is learnt abruptly, and when it is not learnt at all (Reddy, 2024). See its README."""
