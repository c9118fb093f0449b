"""The typed configuration of a run. `RunConfig` holds all sections that a user writes. `stages.py` defines the sections
that the stages of the workflow read; they are made from `RunConfig`."""
