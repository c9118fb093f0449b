"""What the environment says about how this server behaves."""

import os

LFS_THRESHOLD = int(os.environ.get("HUB_LFS_THRESHOLD", 10 * 1024 * 1024))
"""A larger file is a large file whatever its name."""
MULTIPART_ABOVE = int(os.environ.get("HUB_MULTIPART_ABOVE", 0))
"""Offer multipart uploads above this size; 0: never."""
MULTIPART_CHUNK = int(os.environ.get("HUB_MULTIPART_CHUNK", 5 * 1024 * 1024))
MAX_COMMIT_BYTES = int(os.environ.get("HUB_MAX_COMMIT_BYTES", 1 << 30))
"""A larger commit payload is answered with 413."""
COMMITS_PER_HOUR = int(os.environ.get("HUB_COMMITS_PER_HOUR", 0))
"""Rate limit, 429 with a RateLimit header; 0: none."""
TREE_PAGE = int(os.environ.get("HUB_TREE_PAGE", 1000))
"""Entries in a page of a listing."""
NO_XET = bool(os.environ.get("HUB_NO_XET"))
"""Answer 404 where xet tokens are asked for, as a server without a content-addressed store does."""
STRICT_PARENT = bool(os.environ.get("HUB_STRICT_PARENT"))
"""Answer 412 when another commit came in between."""
