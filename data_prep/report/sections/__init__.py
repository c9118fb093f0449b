"""Sections of the corpus page. Each module renders its part of the report as HTML."""
