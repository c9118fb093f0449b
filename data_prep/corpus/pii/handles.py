"""Find user names of social networks: `@name`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from data_prep.corpus.pii.passage import Passage, label
from data_prep.corpus.pii.spans import Span

# The name is matched by a lookahead with a back-reference. A possessive group would do the same, but Python before
# 3.11.5 matches it wrongly. The `@` of an address, a path, a package scope (`@scope/name`) or a call (`@decorator(`)
# does not match.
_HANDLE = re.compile(
    r"@(?<![A-Za-z0-9_À-ÖØ-öø-ɏ@/.+\-&=]@)(?=[A-Za-z0-9_]*[A-Za-z])[A-Za-z0-9_]"
    r"(?=((?:[A-Za-z0-9_]|\.(?=[A-Za-z0-9_])){1,29}))\1"
    r"(?:@(?:[A-Za-z0-9\-]{1,63}\.){1,5}[A-Za-z]{2,24})?(?![A-Za-z0-9_@/(\-{])"
)
_RESERVED = frozenset(
    [  # words that follow an `@` in CSS, Java, Python and JavaScript documentation and are no user names
        "abstractmethod",
        "after",
        "all",
        "apply",
        "author",
        "autowired",
        "before",
        "channel",
        "charset",
        "class",
        "classmethod",
        "code",
        "container",
        "data",
        "dataclass",
        "deprecated",
        "end",
        "entity",
        "everyone",
        "example",
        "exception",
        "extend",
        "file",
        "forward",
        "functionalinterface",
        "here",
        "id",
        "implementation",
        "import",
        "include",
        "interface",
        "keyframes",
        "layer",
        "license",
        "link",
        "media",
        "mixin",
        "namespace",
        "nonnull",
        "nullable",
        "objc",
        "optional",
        "override",
        "page",
        "param",
        "params",
        "private",
        "property",
        "protected",
        "protocol",
        "public",
        "required",
        "return",
        "returns",
        "see",
        "selector",
        "since",
        "staticmethod",
        "supports",
        "suppresswarnings",
        "synthesize",
        "table",
        "test",
        "throws",
        "todo",
        "type",
        "typedef",
        "use",
        "version",
    ]
)
_SOCIAL = label(
    "twitter|instagram|tiktok|telegram|mastodon|threads|follow|followed by|tweet(?:ed)?(?: by)?|via|rt|cc|by|x"
)


def find_handles(passage: Passage) -> Iterator[Span]:
    """Yield `@name` and `@name@server.example`.

    In code, `@` has other meanings, so a word such as `Twitter` must come before the name.
    """
    if "@" not in passage.text:
        return
    code = passage.language == "code"
    for match in _HANDLE.finditer(passage.text):
        if match.group()[1:].lower() not in _RESERVED and (not code or _SOCIAL.search(passage.before(match.start()))):
            yield Span(*match.span(), "handle")
