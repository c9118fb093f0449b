"""Build the optimizer, check DeepSpeed's engine, and control its updates."""
