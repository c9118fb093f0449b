"""Checkpoints in, transformers folder out: read, map, merge, write, verify, describe, publish."""
