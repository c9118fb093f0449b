"""Tables that map this project's parameter names to those of a transformers class, one module per model family."""
