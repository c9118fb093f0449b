"""Checkpoints: written, hashed, sealed, found, verified and loaded."""
