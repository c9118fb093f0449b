"""Counts to a trained tokenizer."""
