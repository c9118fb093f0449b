"""Training on several machines without a scheduler: node 0 controls the processes of the other nodes."""
