"""Attention: one file a back end, one table."""
