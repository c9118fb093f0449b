"""The typed configuration of a run: one section a stage, composed into `RunConfig`; nothing is written twice."""
