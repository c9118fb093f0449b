"""Keep values of environment variables out of Snakemake's own messages, which name the input files of a failed job."""

from __future__ import annotations

import logging
from typing import Any

from bloomery.base.written_values import as_written


def hide_values(logger: logging.Logger) -> None:
    """Let `logger` show the values of the configuration's environment variables as they were written (`${NAME}`).

    The change applies to every handler of the logger, including the one that writes Snakemake's log file.
    """
    if not any(isinstance(each, _HideValues) for each in logger.filters):
        logger.addFilter(_HideValues())


class _HideValues(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Replace values in the message and in the fields that Snakemake adds to a record. Every record passes."""
        for name, value in vars(record).items():
            setattr(record, name, _written(value))
        return True


def _written(value: Any) -> Any:
    # Snakemake's lists of files are subclasses of list; only a list that contains such a value is replaced by a plain
    # list.
    if isinstance(value, str):
        return as_written(value)
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        shown = [as_written(item) for item in value]
        return value if shown == list(value) else type(value)(shown) if type(value) in (list, tuple) else shown
    return value
