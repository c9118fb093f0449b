"""Formats of the files that the packages exchange. These packages never import each other, only the formats."""
