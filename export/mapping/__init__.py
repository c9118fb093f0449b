"""Tables from this project's parameter names to a transformers class's, one module a model family."""
