"""Tables of the plan, as data: read with `importlib.resources`."""
