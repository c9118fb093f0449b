"""What the Snakefile needs in Python: the run's lock, the stages' parts of the configuration, the jobs' environment."""
