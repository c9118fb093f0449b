"""Find where a model is published: in a repository of a Hub, or in a local folder."""

from __future__ import annotations

from dataclasses import dataclass

from bloomery.base.bundle import Bundle, refuse_token
from bloomery.base.hub import MAIN, Hub
from bloomery.base.hub_access import find_token, why_local
from bloomery.base.progress import say
from bloomery.config.stages import PublishStage


@dataclass(frozen=True)
class HubTarget:
    """A repository of a Hub."""

    hub: Hub
    token: str
    repository: str
    """`owner/name` of the repository."""
    private: bool
    """Whether the repository is created as private. An existing repository keeps its visibility."""

    def send(self, bundle: Bundle, tag: str, branch: str = MAIN) -> str:
        """Upload the bundle to a branch, verify the uploaded files by digest, and tag the commit. Return the commit.

        The repository and the branch are created if they do not exist.

        Raises:
            CheckFailedError: a file contains the access token, or the published files differ.
            ConfigError: the Hub refuses the access token.
            InputError: the Hub refuses a request.
            TryAgainError: the Hub did not answer in time.
        """
        refuse_token(bundle, self.token)
        hub, repository = self.hub, self.repository
        hub.ensure_repository(repository, private=self.private)
        if branch != MAIN:
            hub.ensure_branch(repository, branch)
        commit = hub.synchronise(repository, bundle.files, f"Publish {tag}", mirror=bundle.mirror, branch=branch)
        hub.verify(repository, bundle.files, commit, mirror=bundle.mirror)
        hub.tag(repository, tag, commit)
        say(f"published {len(bundle.files)} files to {hub.endpoint}/{repository} with the tag {tag}")
        return commit


@dataclass(frozen=True)
class FolderTarget:
    """A local folder."""

    reason: str
    """Reason why no Hub is used."""


def find_target(stage: PublishStage, bundle: Bundle) -> HubTarget | FolderTarget:
    """Return the target that the configuration and the environment name.

    The files of `bundle` are searched for the token before anything is asked of the Hub.

    Raises:
        CheckFailedError: a file contains the access token.
        ConfigError: the Hub refuses the access token.
        TryAgainError: the Hub did not answer in time.
    """
    settings = stage.publish
    reason = why_local(hub=settings.hub)
    if reason is not None:
        return FolderTarget(reason)
    token = find_token()
    assert token is not None
    refuse_token(bundle, token)
    hub = Hub(token)
    repository = f"{settings.owner or hub.user()}/{stage.model_repository}"
    return HubTarget(hub, token, repository, settings.private)
