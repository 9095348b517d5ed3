"""How circuits are judged beside others: metrics, agreement, negative controls, stability, other methods."""
