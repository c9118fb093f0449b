"""The model card: what it states about a run, and one module for each group of its parts."""
