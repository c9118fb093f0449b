"""How good a tokenizer is, per language and in its vocabulary: figures, a gate, a page."""
