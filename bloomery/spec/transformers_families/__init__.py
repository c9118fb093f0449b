"""Families of transformers models, one table each. To add a family, write one file and add it to `choose.FAMILIES`."""
