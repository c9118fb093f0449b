"""Verbs that do not belong to a single room."""
