"""Pure functions over the stream of metrics: what is out of the ordinary."""
