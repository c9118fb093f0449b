"""The typed configuration of a run: one section a stage, composed into `RunConfig`; nothing is written twice."""

from bloomery.config.load import load_config, validate_config
from bloomery.config.run import RunConfig

__all__ = ["RunConfig", "load_config", "validate_config"]
