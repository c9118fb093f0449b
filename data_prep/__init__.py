"""Raw text in, token index out."""
