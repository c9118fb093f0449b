"""Test that the commit of a git checkout is found without git, as git itself reports it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bloomery.base.source_commit import commit_of

IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.org")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=one")
    return folder


def test_the_commit_equals_that_of_git_in_every_form_of_checkout(checkout: Path, tmp_path: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    assert commit_of(checkout) == head
    git(checkout, "pack-refs", "--all")
    assert not (checkout / ".git/refs/heads/main").exists()
    assert commit_of(checkout) == head
    git(checkout, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    git(tmp_path / "linked", "commit", "--quiet", "--allow-empty", "--message=two")
    assert commit_of(tmp_path / "linked") == git(tmp_path / "linked", "rev-parse", "HEAD") != head
    git(tmp_path / "linked", "checkout", "--quiet", "--detach", "HEAD~1")
    assert commit_of(tmp_path / "linked") == head


@pytest.mark.parametrize("content", [None, "", "ref: refs/heads/none", "not a commit", b"\xff"])
def test_a_folder_that_is_no_readable_checkout_has_no_commit(tmp_path: Path, content: str | bytes | None) -> None:
    assert commit_of(tmp_path / "absent") is None
    if content is not None:
        (tmp_path / ".git").mkdir()
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / ".git" / "HEAD").write_bytes(data)
    assert commit_of(tmp_path) is None
