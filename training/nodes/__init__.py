"""Training on several machines without a scheduler: node 0 leads, and the other nodes follow."""
