"""Write the configuration of a new run: read its sources, choose a model, estimate the time (`bloomery init`)."""
