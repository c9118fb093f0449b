"""Read the batches of a rank."""
