"""Verify a run from its published model back to its sources, and name the first link that does not match.

Every file that an artefact was made from is read and compared with the digest that the artefact records, so a change of
one byte in any of these files is found. Logs and plots are not verified, because no artefact is made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bloomery.base.atomic import known_error
from bloomery.base.digest import digest_file, digest_json, sha256_file
from bloomery.base.errors import BloomeryError, CheckFailedError, InputError
from bloomery.base.json_member import read_member
from bloomery.base.progress import track
from bloomery.base.self_digest import check_file
from bloomery.contracts import lineage
from bloomery.contracts.checkpoint import read_checkpoint, verify_file
from bloomery.contracts.index_manifest import read_index_manifest
from bloomery.contracts.parity import PARITY_NAME, read_parity
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.result import Place, check_result, last_record
from bloomery.contracts.safe_path import read_part_names
from bloomery.contracts.sample_prefix import sample_prefix
from bloomery.contracts.segment import read_segment
from bloomery.contracts.stale_artefacts import stale_artefacts
from bloomery.orchestration.part_names import earlier_parts
from bloomery.orchestration.prepare_run import PARTS_NAME, SECTIONS_NAME, TOKEN_FILES_NAME

_THREADS = 4
_AGAIN = "restore this file from a copy, or delete it and run the workflow again"
_TABLES = ("corpus", "tokenizer/counts", "index/tokens")
"""Folders of a run with tables and their manifests."""


@dataclass(frozen=True)
class Link:
    """A link of the chain that was verified."""

    name: str
    files: int
    """Number of files that were read."""


def verify_run(paths: RunPaths) -> list[Link]:
    """Verify the run and return the verified links, from the published model back to the sources.

    Links of stages that have not run are left out.

    Raises:
        CheckFailedError: a file is missing, differs from what was written, or belongs to another run. The error names
            the link.
        InputError: a file cannot be read.
    """
    chain: list[tuple[str, Callable[[], int]]] = [
        ("published model", partial(_published, paths)),
        ("published logs", partial(_results, paths, ["logs.json"])),
        ("exported model", partial(_exported, paths)),
        ("checkpoint", partial(_checkpoint, paths)),
        ("segments", partial(_segments, paths)),
        ("configuration", partial(_configuration, paths)),
        ("reports", partial(_results, paths, ["report/corpus.json", "report/tokenizer.json", "report/training.json"])),
        ("index and samples", partial(_index, paths)),
        ("token files", partial(_token_files, paths)),
        ("tokenizer", partial(_tokenizer, paths)),
        ("mixture", partial(_mixture, paths)),
        ("shards", partial(_shards, paths)),
        ("sources", partial(_sources, paths)),
        ("order of the artefacts", partial(_order, paths)),
    ]
    found = []
    for name, check in chain:
        try:
            files = check()
        except BloomeryError as error:
            raise type(error)(f"{name}: {error.what}", where=error.where, expected=error.expected) from error
        except OSError as error:
            raise known_error(error) or InputError(
                f"{name}: a file cannot be read ({error.strerror})",
                where=str(error.filename or paths.run),
                expected="a file that this user may read",
            ) from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{name}: a file has another form than the files that this version of Bloomery writes",
                where=str(paths.run),
                expected="files that this version wrote; run the workflow again",
            ) from error
        if files:
            found.append(Link(name, files))
    return found


def _differs(path: Path, expected: str) -> CheckFailedError:
    return CheckFailedError("the file changed after it was written", where=str(path), expected=f"{expected}; {_AGAIN}")


def _all(name: str, jobs: Iterable[Callable[[], object]]) -> int:
    """Run the checks of many files in threads and return their number. The first failure in order is raised."""
    listed = list(jobs)
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        running = [pool.submit(job) for job in listed]
        try:
            for done in track(running, f"verify {name}", len(running), "files"):
                done.result()
        finally:
            pool.shutdown(cancel_futures=True)
    return len(listed)


def _results(paths: RunPaths, names: Iterable[str]) -> int:
    """Check the pointers `names` and every file of these results."""
    files = 0
    for name in names:
        pointer = paths.results / name
        if (record := last_record(pointer)) is not None:
            check_file(record, restore=_AGAIN)
            files += 1 + len(check_result(Place.of(pointer), content=True).files)
    return files


def _names(paths: RunPaths, group: str) -> list[str]:
    """Return the names of the results in a group, such as the names of the exported models."""
    folder = paths.results / group
    records = [*folder.glob("[!.]*.json"), *(path.parent for path in folder.glob("*/.record.json"))]
    return sorted({path.name.removesuffix(".json") for path in records})


def _published(paths: RunPaths) -> int:
    """Check each publication, and that it has the files of the exported model."""
    files = 0
    for name in _names(paths, "publish"):
        files += _results(paths, [f"publish/{name}.json"])
        report = Place.of(paths.results / "publish" / f"{name}.json").current / "publish.json"
        model = paths.export / name
        if model.is_dir():
            listed = read_member(report, "model", "files", kind=dict)
            parity = read_parity(model)
            own = {file: entry.sha256 for file, entry in parity.files.items()}
            own[PARITY_NAME] = sha256_file(model / PARITY_NAME)
            for file, entry in listed.items():
                told = entry.get("sha256") if isinstance(entry, dict) else None
                if own.get(file) != told:
                    raise CheckFailedError(
                        "the published file is not that of the exported model",
                        where=str(model / file),
                        expected=f"SHA-256 {told}; publish the model again",
                    )
    return files


def _exported(paths: RunPaths) -> int:
    """Check each exported model: its files, its parity, and that it was made from its checkpoint."""
    files = 0
    for model in _names(paths, "export"):
        files += _results(paths, [f"export/{model}.json"])
        folder = paths.export / model
        parity = read_parity(folder)
        if not parity.passed:
            raise CheckFailedError(
                "parity does not hold", where=str(folder / PARITY_NAME), expected="a model that passed its check"
            )
        listed = check_result(Place.of(paths.results / "export" / f"{model}.json")).files
        for name, entry in parity.files.items():
            if listed.get(f"{model}/{name}") != entry:
                raise _differs(folder / name, f"SHA-256 {entry.sha256}")
    return files


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


def _checkpoint(paths: RunPaths) -> int:
    """Check the manifest of each checkpoint that matters, and every file that it lists."""
    files = 0
    for folder, digest in _checkpoints(paths):
        manifest = read_checkpoint(folder)
        if digest is not None and lineage.checkpoint_digest(folder) != digest:
            raise _differs(folder / "manifest.json", f"SHA-256 {digest}, from which the model was exported")
        files += 1 + _all(folder.name, [partial(verify_file, folder, manifest, name) for name in manifest.files])
        index = read_index_manifest(paths.index_manifest)
        if manifest.prefix != sample_prefix(index, manifest.consumed_samples):
            raise CheckFailedError(
                "the index does not begin with the samples that this checkpoint was trained on",
                where=str(paths.index_manifest),
                expected="the index of the training; build the index again with the old configuration and texts",
            )
    return files


def _segments(paths: RunPaths) -> int:
    """Check the records of the segments, and that the last one is that of the finished training."""
    records = sorted([*paths.segments.glob("*.json"), *paths.segments.glob("history/*.json")])
    for path in records:
        check_file(path, restore=_AGAIN)
    if paths.finished.is_file():
        check_file(paths.finished, restore=_AGAIN)
        finished = read_segment(paths.finished)
        own = paths.segments / f"{finished.number}.json"
        if own.is_file() and read_segment(own) != finished:
            raise _differs(paths.finished, f"the content of {own}")
        records.append(paths.finished)
    return len(records)


def _configuration(paths: RunPaths) -> int:
    """Check every section of the configuration against the list that the workflow wrote."""
    listing = paths.config / SECTIONS_NAME
    if not listing.is_file():
        return 0
    listed = check_file(listing, restore="run the workflow again, which writes the configuration")
    for name, digest in listed.items():
        if not (paths.config / name).is_file() or sha256_file(paths.config / name) != digest:
            raise _differs(paths.config / name, f"SHA-256 {digest}")
    return 1 + len(listed)


def _index(paths: RunPaths) -> int:
    """Check the index, and that it is the verified one."""
    files = _results(paths, ["index.json"])
    verified = paths.index / "verified.json"
    if files and verified.is_file():
        checked = check_file(verified, restore=_AGAIN)
        if checked["digest"] != read_index_manifest(paths.index_manifest).digest:
            raise CheckFailedError(
                "another index was verified",
                where=str(verified),
                expected="delete this file and run the workflow again",
            )
        files += 1
    return files


def _token_files(paths: RunPaths) -> int:
    """Check the token files of the index and their tables of documents."""
    if not paths.index_manifest.is_file():
        return 0
    manifest = read_index_manifest(paths.index_manifest)
    prefixes = [entry.prefix for entry in manifest.token_files]
    listed = [f"tokens/{name}" for name in read_part_names(paths.config / TOKEN_FILES_NAME)]
    if listed != prefixes:
        raise CheckFailedError(
            "the index was built from other token files",
            where=str(paths.config / TOKEN_FILES_NAME),
            expected=f"{len(prefixes)} pairs of token files, as index.json lists them; run the workflow again",
        )
    jobs: list[Callable[[], None]] = []
    for entry in manifest.token_files:
        prefix = paths.index / entry.prefix
        for suffix, digest in ((".bin", entry.bin_digest), (".idx", entry.idx_digest)):
            jobs.append(partial(_file, prefix.with_name(prefix.name + suffix), digest))
        jobs.append(partial(_file, prefix.with_name(f"{prefix.name}.documents.parquet"), entry.sidecar_digest))
    return _all("token files", jobs)


def _file(path: Path, digest: str) -> None:
    if not path.is_file():
        raise CheckFailedError("the file is missing", where=str(path), expected=f"digest {digest}; {_AGAIN}")
    if digest_file(path) != digest:
        raise _differs(path, f"digest {digest}")


def _tokenizer(paths: RunPaths) -> int:
    """Check the tokenizer and the verdict on its limits."""
    verdict = paths.tokenizer / "gate.json"
    if verdict.is_file():
        check_file(verdict, restore=_AGAIN)
    return _results(paths, ["tokenizer.json"]) + int(verdict.is_file())


def _mixture(paths: RunPaths) -> int:
    path = paths.corpus / "mixture.json"
    if not path.is_file():
        return 0
    check_file(path, restore=_AGAIN)
    return 1


def _manifests(run: Path) -> Iterator[Path]:
    """Yield the manifest of every table of a run."""
    for folder in _TABLES:
        for path in sorted((run / folder).rglob("*.parquet")):
            yield path.with_suffix(".json")


def _shards(paths: RunPaths) -> int:
    """Check every table and its manifest, and that each table was made from tables of this run as they are now."""
    manifests = list(_manifests(paths.run))
    files = 2 * _all("tables", [partial(_table, manifest) for manifest in manifests])
    against = _against(paths)
    earlier = [manifest for run in against for manifest in _manifests(Path(run))]
    known = {lineage.table_digest(manifest) for manifest in [*manifests, *earlier]}
    known |= {_together(paths, folder, against) for folder in ("keys", "members")}
    for manifest in manifests:
        kind = read_member(manifest, "kind", kind=str)
        if manifest.is_relative_to(paths.corpus / "raw"):
            files += _quarantine(paths, manifest)
            continue
        for name, digest in lineage.inputs_of(manifest).items():
            if digest not in known and not _is_foreign(kind, name):
                raise CheckFailedError(
                    f"the table was made from another version of its input {name!r}",
                    where=str(manifest),
                    expected="an input with the recorded digest; run the workflow again",
                )
    return files


def _is_foreign(kind: str, name: str) -> bool:
    """Whether an input is not a table of the run: an adopted token file, or a file of evaluation texts."""
    return name in ("bin", "idx") or (kind == "contaminated" and name != "documents")


def _against(paths: RunPaths) -> list[str]:
    """Return the folders of the earlier runs whose texts this run must not repeat."""
    section = paths.config / "dedup.json"
    return list(map(str, read_member(section, "dedup", "against", kind=list))) if section.is_file() else []


def _together(paths: RunPaths, folder: str, against: list[str]) -> str:
    """Return the digest by which the deduplication records the tables of all shards in a folder."""
    shards = [*read_part_names(paths.config / PARTS_NAME), *earlier_parts(against)]
    tables = [paths.corpus / folder / f"{shard}.json" for shard in shards]
    return digest_json([lineage.table_digest(table) for table in tables if table.is_file()])


def _table(manifest: Path) -> None:
    check_file(manifest, restore=_AGAIN)
    _file(manifest.with_suffix(".parquet"), lineage.table_digest(manifest))


def _quarantine(paths: RunPaths, manifest: Path) -> int:
    """Check the unreadable rows of a raw shard."""
    path = paths.corpus / "quarantine" / manifest.relative_to(paths.corpus / "raw").with_suffix(".jsonl")
    digest = read_member(manifest, "counts", kind=dict).get("quarantine_digest")
    if digest is not None:
        _file(path, digest)
    return int(digest is not None)


def _sources(paths: RunPaths) -> int:
    """Check that the files of the sources are those that were read."""
    listing = paths.config / PARTS_NAME
    jobs: list[Callable[[], None]] = []
    for part in read_part_names(listing) if listing.is_file() else []:
        manifest, section = paths.corpus / "raw" / f"{part}.json", paths.config / "ingest" / f"{part}.json"
        if not manifest.is_file() or not section.is_file():
            continue
        files = read_member(section, kind=dict).get("files") or []
        if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
            raise InputError("the key `files` is not a list of names", where=str(section), expected="a list of files")
        digests = list(lineage.inputs_of(manifest).values())
        if files and len(files) != len(digests):
            raise InputError(
                f"the shard was read from {len(digests)} files", where=str(section), expected=f"{len(files)} files"
            )
        jobs += [partial(_source, Path(name), digest) for name, digest in zip(files, digests, strict=False)]
    return _all("sources", jobs)


def _source(path: Path, told: str) -> None:
    """Check a source's file. A file that is read in pieces has its size in place of a digest."""
    expected = f"the file that the corpus was made from ({told}); restore it, or run the workflow again"
    if not path.is_file():
        raise InputError("the file of the source is missing", where=str(path), expected=expected)
    if told.endswith(tuple("0123456789")) and " bytes, piece " in told:
        same = str(path.stat().st_size) == told.split(" ", 1)[0]
    else:
        same = digest_file(path) == told
    if not same:
        raise CheckFailedError("the file of the source has changed", where=str(path), expected=expected)


def _order(paths: RunPaths) -> int:
    """Check that no artefact is older than what it was made from."""
    for stale in stale_artefacts(paths).values():
        raise CheckFailedError(
            f"the {stale.artefact} is {stale}",
            where=str(paths.run),
            expected=f"run the workflow again with the target {stale.target}",
        )
    return 0
