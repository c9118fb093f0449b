"""Write, hash, seal, find, verify and load checkpoints."""
