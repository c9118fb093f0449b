"""Verify a run from its published model back to its sources, and name the first link that does not match.

Every file that an artefact was made from is read and compared with the digest that the artefact records, so a change of
one byte in any of these files is found. The reports and the published logs are verified, too. The logs in train/logs
are not verified, because no artefact records their digests.

A user may delete tables, old checkpoints and sources that a finished run no longer needs. Such files are counted as not
present. The files that prove a model must exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bloomery.base.atomic import known_error
from bloomery.base.digest import sha256_file
from bloomery.base.errors import BloomeryError, CheckFailedError, InputError
from bloomery.base.json_member import read_member
from bloomery.base.self_digest import check_file
from bloomery.contracts import lineage
from bloomery.contracts.checkpoint import read_checkpoint, verify_file
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.parity import PARITY_NAME, read_parity
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.result import Place, Result, check_result, check_result_file
from bloomery.contracts.sample_prefix import sample_prefix
from bloomery.contracts.segment import read_segment
from bloomery.contracts.stale_artefacts import find_stale
from bloomery.orchestration.prepare_run import SECTIONS_NAME
from monitoring.verify_files import AGAIN, Count, differs, run_checks
from monitoring.verify_tables import verify_sources, verify_tables
from monitoring.verify_token_files import verify_token_files


@dataclass(frozen=True)
class Link:
    """A link of the chain that was verified."""

    name: str
    files: int
    """Number of files that were read."""
    not_present: int = 0
    """Number of files that do not exist and were not verified. Tables, old checkpoints and sources may be deleted when
    a run no longer needs them."""
    note: str = ""
    """Remark on the check for the user, such as the folder to which relative paths refer. It may be empty."""


def chain(paths: RunPaths) -> list[tuple[str, Callable[[], Count]]]:
    """Return the links of the chain by name, each with its check, from the published model back to the sources."""
    reports = ["report/corpus.json", "report/tokenizer.json", "report/training.json"]
    return [
        ("published model", partial(_published, paths)),
        ("published logs", partial(_results, paths, "published logs", ["logs.json"])),
        ("exported model", partial(_exported, paths)),
        ("checkpoint", partial(_checkpoint, paths)),
        ("segments", partial(_segments, paths)),
        ("configuration", partial(_configuration, paths)),
        ("reports", partial(_results, paths, "reports", reports)),
        ("index and samples", partial(_index, paths)),
        ("token files", partial(verify_token_files, paths)),
        ("tokenizer", partial(_tokenizer, paths)),
        ("mixture", partial(_mixture, paths)),
        ("shards", partial(verify_tables, paths)),
        ("sources", partial(verify_sources, paths)),
        ("order of the artefacts", partial(_order, paths)),
    ]


def verify_run(paths: RunPaths) -> list[Link]:
    """Verify the run and return the verified links, from the published model back to the sources.

    Links of stages that have not run are left out.

    Raises:
        CheckFailedError: a file that is needed to prove a model is missing, or a file differs from what was written or
            belongs to another run. The error names the link.
        InputError: a file cannot be read.
    """
    found = []
    for name, check in chain(paths):
        try:
            count = check()
        except BloomeryError as error:
            raise type(error)(f"{name}: {error.what}", where=error.where, expected=error.expected) from error
        except OSError as error:
            raise known_error(error) or InputError(
                f"{name}: a file cannot be read ({error.strerror})",
                where=str(error.filename or paths.run),
                expected="a file that this user may read; check its permissions and its file system",
            ) from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{name}: a file does not have the form that this version of Bloomery writes",
                where=str(paths.run),
                expected="files that this version wrote; run the workflow again",
            ) from error
        if count.files or count.not_present:
            found.append(Link(name, count.files, count.not_present, count.note))
    return found


def _result(pointer: Path, title: str) -> tuple[Result | None, Count]:
    """Check a pointer, its copy and every file of its result.

    Return the result, or None if no result was ever complete. A workflow deletes the pointer before it builds the
    result again, so only the copy may exist.
    """
    place = Place.of(pointer)
    records = [path for path in (pointer, place.record) if path.is_file()]
    if not records:
        return None, Count()
    contents = [check_file(path, restore=AGAIN) for path in records]
    if contents[0] != contents[-1]:
        raise CheckFailedError(
            "the two copies of the record of this result differ",
            where=str(place.record),
            expected=f"the content of {pointer}; restore both files from a copy, or delete {pointer} and run the "
            "workflow again, which builds the result again",
        )
    result = check_result(place)
    files = run_checks(title, [partial(check_result_file, place, result, name, content=True) for name in result.files])
    return result, Count(len(records) + files)


def _results(paths: RunPaths, title: str, names: Iterable[str]) -> Count:
    """Check the pointers `names` and every file of these results."""
    return sum((_result(paths.results / name, title)[1] for name in names), Count())


def _names(paths: RunPaths, group: str) -> list[str]:
    """Return the names of the results in a group, such as the names of the exported models."""
    folder = paths.results / group
    records = [*folder.glob("[!.]*.json"), *(path.parent for path in folder.glob("*/.record.json"))]
    return sorted({path.name.removesuffix(".json") for path in records})


def _published(paths: RunPaths) -> Count:
    """Check each publication, and that it has the files of the exported model."""
    count = Count()
    for name in _names(paths, "publish"):
        count += _results(paths, f"published model {name}", [f"publish/{name}.json"])
        report = Place.of(paths.results / "publish" / f"{name}.json").current / "publish.json"
        model = paths.export / name
        if not model.is_dir():
            raise CheckFailedError(
                "the exported model of this publication is missing",
                where=str(model),
                expected="the weights and parity.json that prove the published model; export the model again",
            )
        listed = read_member(report, "model", "files", kind=dict)
        parity = read_parity(model)
        own = {file: entry.sha256 for file, entry in parity.files.items()}
        own[PARITY_NAME] = sha256_file(model / PARITY_NAME)
        for file, entry in listed.items():
            told = entry.get("sha256") if isinstance(entry, dict) else None
            if own.get(file) != told:
                raise CheckFailedError(
                    "the published file differs from the file of the exported model",
                    where=str(model / file),
                    expected=f"SHA-256 {told}; publish the model again",
                )
    return count


def _exported(paths: RunPaths) -> Count:
    """Check each exported model: its files, its parity, and that it was made from its checkpoint."""
    count = Count()
    for model in _names(paths, "export"):
        result, own = _result(paths.results / "export" / f"{model}.json", f"exported model {model}")
        count += own
        folder = paths.export / model
        parity = read_parity(folder)
        if not parity.passed:
            raise CheckFailedError(
                "parity does not hold: the logits of the exported model differ by more than the tolerance",
                where=str(folder / PARITY_NAME),
                expected="a model that passed the check of its logits; export the model again",
            )
        listed = {} if result is None else result.files
        for name, entry in parity.files.items():
            if listed.get(f"{model}/{name}") != entry:
                raise differs(folder / name, f"SHA-256 {entry.sha256}")
    return count


def _checkpoints(paths: RunPaths) -> Iterator[tuple[Path, str | None]]:
    """Yield the checkpoints of the exported models and of the finished training, each with its expected digest."""
    named: dict[str, str | None] = {}
    if paths.finished.is_file() and (name := read_segment(paths.finished).checkpoint) is not None:
        named[name] = None
    for parity in sorted(paths.export.glob(f"*/{PARITY_NAME}")):
        read = read_parity(parity.parent)
        named[read.checkpoint] = read.made_from.get(lineage.CHECKPOINT)
    for name, digest in named.items():
        yield paths.checkpoints / name, digest


def _checkpoint(paths: RunPaths) -> Count:
    """Check the manifest of each checkpoint that matters, and every file that it lists.

    A checkpoint whose folder was deleted is counted as not present.
    """
    files = not_present = 0
    for folder, digest in _checkpoints(paths):
        if not folder.is_dir():
            not_present += 1
            continue
        manifest = read_checkpoint(folder)
        if digest is not None and lineage.checkpoint_digest(folder) != digest:
            raise differs(folder / "manifest.json", f"SHA-256 {digest}, as when the model was exported")
        files += 1 + run_checks(folder.name, [partial(verify_file, folder, manifest, name) for name in manifest.files])
        index = read_index_manifest(paths.index_manifest)
        if manifest.prefix != sample_prefix(index, manifest.consumed_samples):
            raise CheckFailedError(
                "the index does not begin with the samples that this checkpoint was trained on",
                where=str(paths.index_manifest),
                expected="the index of the training; build the index again with the old configuration and texts",
            )
    return Count(files, not_present)


def _segments(paths: RunPaths) -> Count:
    """Check the records of the segments, and that finished.json equals the record of its segment."""
    records = sorted([*paths.segments.glob("*.json"), *paths.segments.glob("history/*.json")])
    for path in records:
        check_file(path, restore=AGAIN)
    if paths.finished.is_file():
        check_file(paths.finished, restore=AGAIN)
        finished = read_segment(paths.finished)
        own = paths.segments / f"{finished.number}.json"
        if own.is_file() and read_segment(own) != finished:
            raise differs(paths.finished, f"the content of {own}")
        records.append(paths.finished)
    return Count(len(records))


def _configuration(paths: RunPaths) -> Count:
    """Check every section of the configuration against the list that the workflow wrote."""
    listing = paths.config / SECTIONS_NAME
    if not listing.is_file():
        return Count()
    listed = check_file(listing, restore="run the workflow again, which writes the configuration")
    for name, digest in listed.items():
        if not (paths.config / name).is_file() or sha256_file(paths.config / name) != digest:
            raise differs(paths.config / name, f"SHA-256 {digest}")
    return Count(1 + len(listed))


def _index(paths: RunPaths) -> Count:
    """Check the index, and that verified.json belongs to this index.

    If a model was exported or published, the index must exist, because it lists the samples of the training.
    """
    if not paths.index_manifest.is_file() and (_names(paths, "export") or _names(paths, "publish")):
        raise CheckFailedError(
            "the index is missing; it lists the samples that the model was trained on",
            where=str(paths.index_manifest),
            expected="the index of the training; restore it from a copy, or run the workflow again",
        )
    count = _results(paths, "index and samples", ["index.json"])
    verified = paths.index / "verified.json"
    if count.files and verified.is_file():
        checked = check_file(verified, restore=AGAIN)
        if checked["digest"] != read_index_manifest(paths.index_manifest).digest:
            raise CheckFailedError(
                "this file records the verification of another index",
                where=str(verified),
                expected="delete this file and run the workflow again",
            )
        count += Count(1)
    return count


def _tokenizer(paths: RunPaths) -> Count:
    """Check the tokenizer and the verdict on its limits."""
    verdict = paths.tokenizer / "gate.json"
    if verdict.is_file():
        check_file(verdict, restore=AGAIN)
    return _results(paths, "tokenizer", ["tokenizer.json"]) + Count(int(verdict.is_file()))


def _mixture(paths: RunPaths) -> Count:
    path = paths.corpus / "mixture.json"
    if not path.is_file():
        return Count()
    check_file(path, restore=AGAIN)
    return Count(1)


def _order(paths: RunPaths) -> Count:
    """Check that no artefact is older than what it was made from."""
    found = find_stale(paths)
    for errors in found.unreadable.values():
        raise errors[0]
    for stale in found.stale.values():
        raise CheckFailedError(
            f"the {stale.artefact} is {stale}",
            where=str(paths.run),
            expected=f"run the workflow again with the target {stale.target}",
        )
    return Count()
