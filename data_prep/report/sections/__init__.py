"""The sections of the corpus page: each module turns its part of the report into HTML."""
