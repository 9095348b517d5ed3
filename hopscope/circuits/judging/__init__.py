"""How circuits are judged beside others: metrics, agreement, stability, other methods."""
