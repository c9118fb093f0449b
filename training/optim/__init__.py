"""Optimizers behind one builder."""
