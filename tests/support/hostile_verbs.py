"""Change one file of a finished run at a time, and call the verbs that read it.

Each call must succeed or raise a `BloomeryError`, write nothing outside of the run's folder, publish no file from
outside of this folder, and take at most 5 s of processor time.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import typer
from hostile_bytes import dumped, mutate, places_of
from hostile_run import HostileRun, list_again, make_hostile_run
from hostile_sources import CHECKPOINT, DEEPSPEED, TRANSFORMERS

from bloomery.base.bundle import Bundle, LocalFile, copy_bundle
from bloomery.base.errors import BloomeryError

MOST_SECONDS = 5.0
"""Most processor time that one call of a verb may take, in seconds."""
SECRET = b"a file outside of the run\n"


class HangError(BaseException):
    """A call took too long. It is no `Exception`, so that the code under test cannot catch it."""


@dataclass(frozen=True)
class Target:
    """A kind of file that is changed."""

    name: str
    pattern: str
    """Pattern of the files, relative to the run's folder."""
    verbs: tuple[str, ...]
    listed: bool = False
    """Whether manifest.json or parity.json lists the file. Its entry is then renewed, so that verbs read the file."""


_EVERYWHERE = ("status", "summary", "sync")
TARGETS = (
    Target(
        "manifest", "train/checkpoints/*/manifest.json", ("status", "resume", "checkpoint", "trace", "verify logits")
    ),
    Target("parity", "export/*/parity.json", ("status", "summary", "publish")),
    Target("reference", "train/checkpoints/*/reference.safetensors", ("verify logits",), listed=True),
    Target("metrics", "train/logs/metrics.jsonl", (*_EVERYWHERE, "card", "page", "trace")),
    Target("card", "export/*/README.md", ("publish",)),
    Target("mixture", "corpus/mixture.json", ("card", "summary")),
    Target("index", "index/index.json", ("status", "summary", "index", "trace", "resume", "samples", "card")),
    Target("array", "index/arrays/**/*.npy", ("index", "trace", "samples")),
    Target("token file", "index/tokens/*/*.[bi]*", ("index", "trace", "samples")),
    Target("sidecar", "index/tokens/*/*.json", ("index", "trace")),
    Target("segment", "train/segments/**/*.json", (*_EVERYWHERE, "resume")),
    Target("finished", "train/finished.json", (*_EVERYWHERE, "checkpoint")),
    Target("skips", "train/skips.json", ("status", "resume", "trace")),
    Target("weights", "train/checkpoints/*/layer_*.pt", ("checkpoint",), listed=True),
    Target("model configuration", "export/*/*config.json", ("publish",), listed=True),
    Target("tokenizer", "tokenizer/*config.json", ("tokenizer",)),
    Target("lists", "config/*_files.json", ("status",)),
    Target("parts", "config/parts.json", ("status", "summary")),
    Target("stages", "config/[te]*[nt].json", ("status", "trace")),
    Target("clean manifest", "corpus/clean/*/*.json", ("summary", "trace")),
    Target("states", "monitoring/*.json", ("status", "summary")),
    Target("lease", "train/lease", ("status",)),
    Target("lock", ".lock", ("status",)),
    Target("benchmarks", "benchmarks/*.tsv", ("summary",)),
    Target("published", "published/publish.json", ("summary",)),
    Target("record of a result", "results/**/*.json", ("status", "summary")),
    Target("DeepSpeed checkpoint", "sources/deepspeed/**/*.pt", ("export deepspeed",)),
    Target("transformers model", "sources/transformers/*/*.*", ("import hf",)),
    Target("whole manifest", "sources/checkpoint/manifest.json", ("checkpoint inspect", "checkpoint reshard")),
    Target("whole state", "sources/checkpoint/*[.pr][ta]*", ("checkpoint inspect", "checkpoint reshard"), listed=True),
)
WEIGHTS = {
    "manifest": 6,
    "index": 6,
    "metrics": 4,
    "parity": 4,
    "reference": 3,
    "segment": 3,
    "DeepSpeed checkpoint": 2,
    "transformers model": 2,
    "whole state": 2,
}
"""Name of a target -> its weight when a target is drawn. The other targets have the weight 1."""
SLOW_VERBS = {"page": 0.15, "card": 0.3, "verify logits": 0.5}
"""Slow verb -> probability that it is called after a mutation."""


@dataclass(frozen=True)
class Failure:
    """A call that broke a rule."""

    mutation: int
    target: str
    file: str
    change: str
    verb: str
    what: str

    def __str__(self) -> str:
        return f"mutation {self.mutation}: {self.verb} after {self.change} in {self.file}: {self.what}"


@dataclass
class Result:
    """Outcomes of the calls after all mutations."""

    mutations: Counter[str] = field(default_factory=Counter)
    """Number of mutations of each target."""
    refused: Counter[str] = field(default_factory=Counter)
    """Number of calls of each verb that raised a `BloomeryError`."""
    accepted: Counter[str] = field(default_factory=Counter)
    """Number of calls of each verb that succeeded."""
    longest: dict[str, float] = field(default_factory=dict)
    """Most processor time of a call of each verb, in seconds."""
    failures: list[Failure] = field(default_factory=list)


def fuzz(folder: Path, numbers: range, seed: int) -> Result:
    """Make a run in `folder`. For each of the `numbers`, change one file of a copy of the run. Return the result.

    Each mutation depends only on its number and on `seed`.
    """
    original = make_hostile_run(folder / "original")
    arena = folder / "arena"
    (arena / "runs" / "other").mkdir(parents=True)
    for path in (arena / "outside.txt", arena / "runs" / "outside.txt", arena / "runs" / "other" / "a.json"):
        path.write_bytes(SECRET)
    result = Result()
    before = _listing(arena)
    for number in numbers:
        rng = random.Random(f"{seed}/{number}")
        target = rng.choices(TARGETS, [WEIGHTS.get(each.name, 1) for each in TARGETS])[0]
        run = original.at(arena / "runs" / "tiny")
        shutil.copytree(original.paths.run, run.paths.run, symlinks=True)
        _mutate_and_call(run, target, number, rng, result)
        shutil.rmtree(run.paths.run)
        if (after := _listing(arena)) != before:
            changed = sorted({*before.items()} ^ {*after.items()})
            what = f"files outside of the run changed: {changed[:3]}"
            result.failures.append(Failure(number, target.name, "", "", "all verbs", what))
            before = after
    return result


EDITED = (
    "index/index.json",
    "train/checkpoints/step00000100/manifest.json",
    "export/tiny-bloom/parity.json",
    "train/segments/history/1-1.json",
    "train/finished.json",
    "train/skips.json",
    "published/publish.json",
    "config/train.json",
    "sources/checkpoint/manifest.json",
)
"""Files of which every single value is replaced."""
EDITS = (0, 1, -1, 10**12, 2**62, 2**63, 0.5, "", None, [], {}, "../../x", "@huge@", "x")


def edit_by_hand(folder: Path, files: Sequence[str] = EDITED, edits: Sequence[Any] = EDITS) -> Result:
    """Make a run in `folder`, replace each value of `files` by each of `edits`, and return the result.

    Verbs that change the run, such as a resume, are not called, because all edits share one run.
    """
    run = make_hostile_run(folder)
    result = Result()
    for name in files:
        path = run.paths.run / name
        verbs = next(each.verbs for each in TARGETS if path in run.paths.run.glob(each.pattern))
        written = path.read_bytes()
        places = len(list(places_of(json.loads(written))))
        for number, (place, edit) in enumerate(product(range(places), edits)):
            value = json.loads(written)
            parent, key = places_of(value)[place]
            parent[key] = edit
            path.write_text(dumped(value))
            result.mutations[f"every value of {name}"] += 1
            for verb in (*verbs, "verify"):
                if verb in (
                    "status",
                    "summary",
                    "publish",
                    "index",
                    "samples",
                    "trace",
                    "checkpoint",
                    "verify",
                    "checkpoint inspect",
                ):
                    _judge(run, verb, Failure(number, name, name, f"the value {edit!r} of {key!r}", verb, ""), result)
        path.write_bytes(written)
    return result


def _judge(run: HostileRun, verb: str, failure: Failure, result: Result) -> None:
    """Call a verb, and add `failure` with its reason to the result if the call breaks a rule."""
    started = time.process_time()
    what = _call(partial(VERBS[verb], run), result, verb)
    taken = time.process_time() - started
    result.longest[verb] = max(taken, result.longest.get(verb, 0.0))
    if what is None and taken > MOST_SECONDS:
        what = f"took {taken:.1f} s of processor time"
    if what is not None:
        result.failures.append(replace(failure, what=what))


def _mutate_and_call(run: HostileRun, target: Target, number: int, rng: random.Random, result: Result) -> None:
    file = rng.choice(sorted(run.paths.run.glob(target.pattern)))
    data, change = mutate(file.read_bytes(), rng)
    file.write_bytes(data)
    if target.listed:
        list_again(run)
    result.mutations[target.name] += 1
    for verb in (*target.verbs, "verify"):
        if rng.random() > SLOW_VERBS.get(verb, 1.0):
            continue
        name = file.relative_to(run.paths.run).as_posix()
        _judge(run, verb, Failure(number, target.name, name, change, verb, ""), result)


def _call(call: Callable[[], object], result: Result, verb: str) -> str | None:
    """Call a verb. Return a description of the failure, or None if the call broke no rule."""

    def hang(*_: object) -> None:
        raise HangError

    previous = signal.signal(signal.SIGPROF, hang)
    signal.setitimer(signal.ITIMER_PROF, 2 * MOST_SECONDS)
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            call()
    except BloomeryError:
        result.refused[verb] += 1
    except HangError:
        return f"took more than {2 * MOST_SECONDS:g} s of processor time"
    except Exception as error:  # this program looks for such errors
        frames = traceback.extract_tb(error.__traceback__)
        own = [
            frame for frame in frames if "site-packages" not in frame.filename and "/lib/python" not in frame.filename
        ]
        place = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "?"
        return f"{type(error).__name__} at {place}: {str(error)[:150]}"
    else:
        result.accepted[verb] += 1
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    return None


def _listing(arena: Path) -> dict[str, tuple[int, int]]:
    """Return the size and the time of the last change of every file in `arena` outside of the run."""
    skipped = arena / "runs" / "tiny"
    found = {}
    for top, folders, files in os.walk(arena):
        if Path(top) == skipped.parent and skipped.name in folders:
            folders.remove(skipped.name)
        for name in files:
            status = Path(top, name).stat()
            found[str(Path(top, name))] = (status.st_size, status.st_mtime_ns)
    return found


def _status(run: HostileRun) -> None:
    from dataclasses import asdict

    from pydantic_core import to_jsonable_python

    from bloomery.base.atomic import dump_json
    from monitoring.status import gather_status
    from monitoring.status_cli import lines

    found = gather_status(run.paths.run, 1_800_000_000.0)
    assert lines(found)
    dump_json(to_jsonable_python(asdict(found))).encode()


def _summary(run: HostileRun) -> None:
    from dataclasses import asdict

    from bloomery.base.atomic import dump_json
    from monitoring.summary import gather_summary
    from monitoring.summary_cli import lines, next_command

    facts = gather_summary(run.paths.run)
    "\n".join(text for row in lines(facts) for text in row).encode()
    dump_json({**asdict(facts), "next": next_command(facts)}).encode()


def _sync(run: HostileRun) -> None:
    from monitoring.logs_bundle import logs_bundle
    from monitoring.snapshot import training_ended

    snapshot = run.paths.monitoring / ".snapshot"
    bundle, _ = logs_bundle(run.publish, run.paths, snapshot, finished=training_ended(run.paths))
    _publish_bundle(bundle, run.paths.published / "logs")


def _page(run: HostileRun) -> None:
    from monitoring.cli import plots

    plots(run=run.paths.run, output_html=run.paths.report / "training.html")


def _card(run: HostileRun) -> None:
    from bloomery.contracts.parity import Generation, HeldOutLoss
    from export.card.facts import CardFacts
    from export.model_card import write_card
    from export.proof.comparison import Comparison

    held_out = {"en": HeldOutLoss(samples=2, training=7.5, exported=7.5)}
    text = Generation(name="en", prompt="the river", text=" runs")
    comparison = Comparison(3, 72, 1e-6, 4.0, 1.0, held_out, (text,))
    facts = CardFacts(run.export, run.manifest, run.checkpoint.name, 35776, 290, comparison)
    write_card(run.model, facts, run.paths)


def _publish(run: HostileRun) -> None:
    from export.model_bundle import model_bundle

    bundle, _ = model_bundle(run.model, run.publish.model_name)
    _publish_bundle(bundle, run.paths.published / "again")


def _publish_bundle(bundle: Bundle, folder: Path) -> None:
    copy_bundle(bundle, folder)
    secret = LocalFile.of(SECRET).sha256
    assert all(file.sha256 != secret for file in bundle.files.values()), "a file outside of the run was published"


def _checkpoint(run: HostileRun) -> None:
    import torch

    from bloomery.checkpoint.weights import Checkpoint
    from export.choose_checkpoint import choose_checkpoint

    folder = choose_checkpoint(run.paths, None)
    assert folder.resolve().is_relative_to(run.paths.checkpoints.resolve()), "a checkpoint outside of the run is read"
    checkpoint = Checkpoint(folder, run.export.model)
    for parameter in checkpoint.parameters:
        checkpoint.weight(parameter, torch.float32)


def _call_each(calls: Iterable[Callable[[], object]]) -> None:
    """Make all calls, and then raise the first `BloomeryError` of a call."""
    errors = []
    for call in calls:
        try:
            call()
        except BloomeryError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _export_deepspeed(run: HostileRun) -> None:
    from export.foreign_export import ForeignSettings, export_foreign

    settings = ForeignSettings(tokenizer=run.paths.tokenizer)
    folders = sorted((run.sources / DEEPSPEED).iterdir())
    _call_each(
        partial(export_foreign, folder, run.paths.run / "exported" / folder.name, settings) for folder in folders
    )


def _import_hf(run: HostileRun) -> None:
    from export.from_transformers.import_model import Layout, import_model

    folders = sorted((run.sources / TRANSFORMERS).iterdir())
    output = run.paths.run / "imported"
    _call_each(partial(import_model, str(folder), output / folder.name, Layout(2)) for folder in folders)


def _inspect_checkpoint(run: HostileRun) -> None:
    from training.checkpoint.cli import inspect

    for as_json in (True, False):
        with contextlib.suppress(typer.Exit):
            inspect(run.sources / CHECKPOINT, as_json)


def _reshard_checkpoint(run: HostileRun) -> None:
    from training.checkpoint.reshard_checkpoint import reshard_checkpoint

    reshard_checkpoint(run.sources / CHECKPOINT, run.paths.run / "resharded", tensor=1, pipeline=2)


def _prove_model(run: HostileRun) -> None:
    from bloomery.checkpoint.weights import Checkpoint
    from bloomery.spec.transformers_families.choose import family_for_export
    from export.proof.prove import Written, checkpoint_reference, prove

    checkpoint = Checkpoint(run.checkpoint, run.export.model)
    manifest, tolerance = checkpoint.manifest, run.export.export.tolerance
    family = family_for_export(run.export.model)
    written = Written(run.model, family, manifest.vocabulary_rows, manifest.vocabulary_size, 1000)
    prove(written, checkpoint, checkpoint_reference(checkpoint), tolerance, failed=run.model)


def _tokenizer(run: HostileRun) -> None:
    from export.write_configs import copy_tokenizer, read_tokenizer

    read_tokenizer(run.paths.tokenizer, run.manifest.vocabulary_size)
    copy_tokenizer(run.paths.tokenizer, run.model)
    _prove_model(run)


def _index(run: HostileRun) -> None:
    from bloomery.base.atomic import dump_json
    from data_prep.index.show import facts, read_index, tables
    from data_prep.index.verify_index import verify_index

    with contextlib.suppress(BloomeryError):
        manifest = read_index(run.paths.index)
        dump_json(facts(manifest)).encode()
        for _, columns, rows in tables(manifest):
            assert all(isinstance(text, str) for row in (columns, *rows) for text in row)
    dump_json(verify_index(run.paths.index)).encode()


def _samples(run: HostileRun) -> None:
    from bloomery.contracts.sample_reader import SampleReader

    reader = SampleReader(run.paths.index)
    for sample in (0, 1, 199, reader.train_samples - 1):
        assert len(reader.train(sample)) == reader.sequence_length + 1
    for name in reader.validation_names:
        reader.validation(name, reader.validation_samples(name) - 1)


def _trace(run: HostileRun) -> None:
    from data_prep.index.trace_cli import TextMode, trace

    options: dict[str, Any] = {"rank": None, "validation": None, "limit": 3, "text": TextMode.FULL}
    trace(run=run.paths.run, iteration=None, samples="395:400", as_json=True, **options)
    trace(run=run.paths.run, iteration=60, samples=None, as_json=False, **options)


def _resume(run: HostileRun) -> None:
    from training.resume.resolve_resume import resolve_resume

    point = resolve_resume(run.train, run.paths)
    assert point.total_iterations >= 0
    assert point.continues in (True, False)


def _verify(run: HostileRun) -> None:
    from monitoring import verify_run

    # `verify_run` ends at the first link that fails, so each link is verified alone.
    for _, check in verify_run.chain(run.paths):
        with contextlib.suppress(BloomeryError):
            check()
    verify_run.verify_run(run.paths)


VERBS: dict[str, Callable[[HostileRun], None]] = {
    "status": _status,
    "summary": _summary,
    "sync": _sync,
    "page": _page,
    "card": _card,
    "publish": _publish,
    "checkpoint": _checkpoint,
    "checkpoint inspect": _inspect_checkpoint,
    "checkpoint reshard": _reshard_checkpoint,
    "export deepspeed": _export_deepspeed,
    "import hf": _import_hf,
    "verify logits": _prove_model,
    "tokenizer": _tokenizer,
    "index": _index,
    "samples": _samples,
    "trace": _trace,
    "resume": _resume,
    "verify": _verify,
}
"""Verb -> the function that calls it on a run."""


def kinds(failures: list[Failure]) -> Iterator[tuple[int, Failure]]:
    """Yield each kind of failure once, with its number of occurrences, most frequent first."""
    groups: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        groups.setdefault((failure.verb, failure.what.split(": ")[0]), []).append(failure)
    for group in sorted(groups.values(), key=len, reverse=True):
        yield len(group), group[0]
