"""Batches: which samples a rank reads at an iteration."""
