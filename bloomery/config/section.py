"""Base of every section of the configuration. A section is immutable, rejects unknown keys and describes each field."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
"""A name that becomes part of a path: letters, digits, `.`, `_`, `-`."""


_GREATEST = 2**63


def _plain_number(value: Any) -> Any:
    # pydantic would read true as 1, and Python treats True as 1.
    if isinstance(value, bool):
        raise ValueError("a number, not true or false")
    # Larger values would overflow in the arithmetic of a plan.
    if isinstance(value, int | float) and _GREATEST < abs(value) < math.inf:
        raise ValueError("a number of at most 2^63")
    return value


NotBool = BeforeValidator(_plain_number)
"""Validator that rejects booleans and numbers beyond 2^63. It must be the last item of an annotation. If it came before
the limits, the JSON schema would not contain them."""

Integer = Annotated[int, NotBool]
"""A whole number."""

Number = Annotated[float, NotBool]
"""A number."""

Share = Annotated[float, Field(ge=0.0, le=1.0), NotBool]
"""A share between 0 and 1."""

Positive = Annotated[int, Field(gt=0), NotBool]
"""An integer above 0."""

Count = Annotated[int, Field(ge=0), NotBool]
"""An integer of at least 0."""


LANGUAGE_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
"""Form of a language code, in the configuration and in the rows of a source."""


def _language(value: str) -> str:
    # The code becomes part of paths and tables. Rows of a source must have such a code, too.
    if not LANGUAGE_CODE.fullmatch(value):
        raise ValueError("a language code of at most 32 letters, digits, `-` and `_`, such as 'fr', 'zhs' or 'code'")
    return value


Language = Annotated[str, AfterValidator(_language)]
"""A language code."""


class Section(BaseModel):
    """A part of the configuration."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )


@dataclass(frozen=True)
class Problem:
    """One problem of a configuration."""

    key: str
    """Path of the key, such as `training.batch.global_batch_size`."""
    value: Any
    """Wrong value of the key. It is None if the key is absent."""
    reason: str
    """Sentence that describes the problem and names key and value."""
    suggestion: str = ""
    """Description of a right value. Empty if nothing can be suggested."""

    def __str__(self) -> str:
        return self.reason + (f"; expected: {self.suggestion}" if self.suggestion else "")


@dataclass(frozen=True)
class Contradiction:
    """A contradiction between keys whose values are each valid alone."""

    message: str
    keys: tuple[str, ...]
    """Paths of all keys involved. The first is the key that a user would most likely change."""
    value: Any = None
    """Value of the first key in `keys`."""
    suggestion: str = ""
    """Description of a right value. Empty if nothing can be suggested."""

    @property
    def problem(self) -> Problem:
        """The contradiction as a problem of its first key."""
        return Problem(self.keys[0], self.value, self.message, self.suggestion)


def report(found: list[Contradiction], info: ValidationInfo) -> None:
    """Add the contradictions in `found` to the list in `info.context`, which `bloomery.config.load` provides.

    Collected contradictions do not stop the validation of the sections around them.

    Raises:
        ValueError: `found` is not empty, and `info.context` is not a list.
    """
    if isinstance(info.context, list):
        info.context.extend(found)
    elif found:
        raise ValueError("; ".join(str(contradiction.problem) for contradiction in found))
