"""Export a checkpoint to a transformers folder: read, map, merge, write, verify, describe and publish it."""
