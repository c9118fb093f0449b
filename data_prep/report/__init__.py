"""Report on data preparation as an HTML page and as JSON."""
