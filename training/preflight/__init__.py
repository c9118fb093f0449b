"""Preflight: checks of all nodes at the start of a segment, before DeepSpeed builds its engine."""
