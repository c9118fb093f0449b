"""Find names of files that Snakemake would change, because it reads parts of them as its own variables.

Snakemake replaces `<name>` (a path variable) and `{name}` (a wildcard) in the paths of inputs, and offers no way to
write these characters literally. All other characters, also spaces, quotes, line breaks and `*`, are passed on.
"""

from __future__ import annotations

import re

_REPLACED = re.compile(r"<[a-z][a-z0-9_]*>|\{[^{}]*\}")
RENAME = "a file and folders whose names contain neither `<name>` nor `{name}`; rename the file or the folder"
"""What would be right instead of such a name, for error messages."""


def replaced_part(path: str) -> str | None:
    """Return the first part of a path that Snakemake would replace; None if it would replace none."""
    found = _REPLACED.search(path)
    return found.group() if found else None
