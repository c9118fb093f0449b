"""What every section of the configuration shares: frozen, strict about unknown keys, documented under each field."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""A name that becomes part of a path: letters, digits, `.`, `_`, `-`."""

Share = Annotated[float, Field(ge=0.0, le=1.0)]
"""A share between 0 and 1."""

Positive = Annotated[int, Field(gt=0)]
"""An integer above 0."""

Count = Annotated[int, Field(ge=0)]
"""An integer from 0 on."""


class Section(BaseModel):
    """A part of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True)
