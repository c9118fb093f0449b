"""Settings of the server, read from environment variables."""

import os

LFS_THRESHOLD = int(os.environ.get("HUB_LFS_THRESHOLD", 10 * 1024 * 1024))
"""Size in bytes above which a file is stored with LFS, whatever its name."""
MULTIPART_ABOVE = int(os.environ.get("HUB_MULTIPART_ABOVE", 0))
"""Size in bytes above which the server offers multipart uploads. 0 disables multipart uploads."""
MULTIPART_CHUNK = int(os.environ.get("HUB_MULTIPART_CHUNK", 5 * 1024 * 1024))
MAX_COMMIT_BYTES = int(os.environ.get("HUB_MAX_COMMIT_BYTES", 1 << 30))
"""Size in bytes above which the payload of a commit is answered with 413."""
COMMITS_PER_HOUR = int(os.environ.get("HUB_COMMITS_PER_HOUR", 0))
"""Number of commits per hour before the server answers 429 with a RateLimit header. 0 disables the limit."""
TREE_PAGE = int(os.environ.get("HUB_TREE_PAGE", 1000))
"""Number of entries in a page of a listing."""
NO_XET = bool(os.environ.get("HUB_NO_XET"))
"""Answer 404 to requests for xet tokens, like a server without a content-addressed store."""
STRICT_PARENT = bool(os.environ.get("HUB_STRICT_PARENT"))
"""Answer 412 if another commit was made while the server handled the request."""
