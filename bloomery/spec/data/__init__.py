"""Hold the tables of GPUs and electricity grids, which `bloomery.spec.hardware` reads with `importlib.resources`."""
