"""The typed configuration of a run. Each stage has one section, and `RunConfig` holds them all."""
