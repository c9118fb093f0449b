"""Prove an exported model: its forward pass must match the reference of the checkpoint, with one layer in memory."""
