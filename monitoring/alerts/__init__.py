"""Look at a run's files and queue, and tell people when the run needs them."""
