"""Prepare the training data: from raw text to the token index."""
