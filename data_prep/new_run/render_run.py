"""Write the configuration of a new run as YAML with a comment on each choice."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from bloomery.base.units import format_bytes, format_count, format_seconds
from bloomery.spec.epochs import samples_of_epochs
from bloomery.spec.text_size import bytes_per_token
from data_prep.corpus.inspect_sources import SourceSample, most_common
from data_prep.new_run.choose_model import Choice, Limits, training_values
from data_prep.new_run.machine import Machine

SHARD_BYTES = "32MiB"


@dataclass(frozen=True)
class NewRun:
    """Everything that the configuration of a new run states."""

    name: str
    sources: list[dict[str, Any]]
    """Keys of each source."""
    samples: list[SourceSample]
    """First rows of each source."""
    excluded: list[str]
    """Languages that the rows have but the training does not read."""
    limits: Limits
    """Limits that the model had to fit."""
    choice: Choice
    documents: int
    """Estimated number of documents in the languages that the training reads, before cleaning."""
    asked: frozenset[str] = frozenset()
    """Names of the questions that an option answered, or that the user answered differently from the proposal."""

    @property
    def machine(self) -> Machine:
        """The machine of the training."""
        return self.limits.machine

    @property
    def validation_share(self) -> float:
        """Share of the documents that is held out for validation."""
        return 0.02 if self.limits.text_bytes < 10**9 else 0.005

    @property
    def corpus_tokens(self) -> int:
        """Estimated number of training tokens of the corpus."""
        tokens = self.limits.text_bytes / bytes_per_token(self.limits.vocabulary)
        return max(1, round(tokens * (1 - self.validation_share)))

    def values(self) -> dict[str, Any]:
        """Return the configuration as a dictionary, without comments."""
        corpus: dict[str, Any] = {"ingest": {"shard_bytes": SHARD_BYTES}}
        if self.excluded:
            corpus["mixture"] = {"weights": dict.fromkeys(self.excluded, 0.0)}
        training = training_values(self.choice, self.machine, self.limits.languages)
        epochs, length = self.choice.whole_epochs, self.choice.shape.sequence_length
        batch = training["batch"]["global_batch_size"]
        # A corpus that does not fill one batch is read as often as one batch needs.
        if epochs is not None and samples_of_epochs(epochs, self.corpus_tokens, length) >= batch:
            del training["train_samples"]
            training = {"train_epochs": epochs} | training
        return {
            "name": self.name,
            "sources": self.sources,
            "corpus": corpus,
            "tokenizer": {"vocabulary_size": self.limits.vocabulary, "reserved_tokens": 32},
            "index": {"validation_share": self.validation_share},
            "model": self.choice.shape.values(),
            "training": training,
            "plan": {
                "corpus_tokens": self.corpus_tokens,
                "corpus_documents": self.documents,
                "corpus_languages": self.limits.languages,
            },
            "publish": {"hub": False},
        }


def render_run(run: NewRun, estimate: str) -> str:
    """Return the YAML of a run. `estimate` is a sentence about the duration of the training."""
    values, choice = run.values(), run.choice
    training = values["training"]
    rate, lowest = (training["optimizer"][f"{name}learning_rate"] for name in ("", "min_"))
    text = [
        f"# Configuration of the run {run.name!r}, written by `bloomery init`. All keys: config/README.md.",
        "# Check a change with: bloomery config check --data FILE",
        f"name: {_scalar(run.name)}  # files are written to runs/{run.name}/",
        "",
        "sources:",
    ]
    for source, sample in zip(run.sources, run.samples, strict=True):
        text += _source_lines(source, sample)
    text += [
        "",
        "corpus:",
        "  ingest:",
        f"    shard_bytes: {SHARD_BYTES}  # size of the text that one job reads; the default, 256MiB, suits a "
        "larger corpus",
    ]
    if run.excluded:
        text += [
            "  mixture:",
            "    # Languages that the sources contain but the training does not read (--languages).",
            "    weights:",
            *(f"      {_scalar(code)}: 0.0" for code in run.excluded),
        ]
    size = format_bytes(run.limits.text_bytes)
    text += [
        "",
        "tokenizer:",
        f"  # {_why(run, 'vocabulary', f'chosen for about {size} of text')}; with a larger vocabulary, a text has",
        "  # fewer tokens, but the model has more parameters.",
        f"  vocabulary_size: {run.limits.vocabulary}",
        "  reserved_tokens: 32  # token ids that are free for later use, such as for special tokens of a chat",
        "",
        "index:",
        f"  validation_share: {values['index']['validation_share']}  # share of the documents that are used only for "
        "validation",
        "",
        f"# {format_count(choice.parameters)} parameters: {_why_model(run)}.",
        "model:",
        *(f"  {key}: {value}" for key, value in values["model"].items()),
        "",
        f"# {estimate}",
        "training:",
        *_length_lines(run, training),
        "  parallel:",
        f"    data: {training['parallel']['data']}  # {_replicas(run.machine)}",
        "  batch:",
        f"    micro_batch_size: {training['batch']['micro_batch_size']}",
        f"    global_batch_size: {training['batch']['global_batch_size']}  # chosen for about 1,000 model updates or "
        "fewer",
        "  optimizer:",
        f"    learning_rate: {_scalar(rate)}  # computed from the number of parameters (Kaplan et al. 2020)",
        f"    min_learning_rate: {_scalar(lowest)}  # a tenth of learning_rate",
        f"    warmup_samples: {training['optimizer']['warmup_samples']}  # about 2 % of the training samples",
        f"  precision: {training['precision']}  # {_why_precision(run.machine)}",
        "  activation_checkpointing: none  # the value `full` needs less memory and a third more time",
        "  checkpoint:",
        f"    every_iterations: {training['checkpoint']['every_iterations']}",
        "  validation:",
        f"    every_iterations: {training['validation']['every_iterations']}",
        f"    samples: {training['validation']['samples']}  # validation samples of each language; validation takes at "
        "most a tenth of the training time",
    ]
    if "threads_per_rank" in training:
        text.append(f"  threads_per_rank: {training['threads_per_rank']}  # all processors of this machine")
    text += [
        "",
        "# Estimates from the rows that were read, for `bloomery plan`. The index stage counts the exact numbers.",
        "plan:",
        *(f"  {key}: {value}" for key, value in values["plan"].items()),
        "",
        "publish:",
        "  hub: false  # publish to a local folder, even if a Hub token is set",
        "",
    ]
    return "\n".join(text)


def _length_lines(run: NewRun, training: dict[str, Any]) -> list[str]:
    """Return the lines of the key that states the length of the training."""
    tokens = format_count(run.corpus_tokens)
    if "train_epochs" in training:
        why = _why(run, "epochs", "further epochs would hardly improve the model")
        return [f"  train_epochs: {training['train_epochs']:g}  # epochs of an estimated {tokens} tokens; {why}"]
    why = "One batch"
    if run.choice.whole_epochs is None:
        why = f"As many samples as this machine can read in {format_seconds(run.limits.seconds)} (--minutes)"
    epochs = training["train_samples"] * run.choice.shape.sequence_length / run.corpus_tokens
    return [
        f"  # {why}: about {epochs:.2g} epochs of an estimated {tokens} tokens.",
        "  # To state the length in epochs, use train_epochs instead.",
        f"  train_samples: {training['train_samples']}",
    ]


def _source_lines(source: dict[str, Any], sample: SourceSample) -> list[str]:
    """Return the lines of one source."""
    rows = f"all {sample.rows}" if sample.complete else f"the first {sample.rows}"
    keys = [key for key in source if key not in ("name", "paths")]
    lines = [
        f"  - name: {_scalar(source['name'])}  # this name is a part of paths and document ids",
        f"    # {rows} rows: {most_common(sample.languages)}",
        "    paths:",
        *(f"      - {_scalar(path)}" for path in source["paths"]),
    ]
    about = {
        "kind": "guessed from the names of the files",
        "text_field": f"the rows have these fields: {', '.join(sample.fields)}",
        "language_field": "holds the language code of each row",
        "language": "language code of every document",
        "id_field": "has a different value in each row that was read",
    }
    lines += [f"    {key}: {_scalar(source[key])}  # {about[key]}" for key in keys]
    return [*lines, "    licence: unknown  # write the licence of these texts here: the model card lists it"]


def _why(run: NewRun, name: str, otherwise: str) -> str:
    return "as you asked" if name in run.asked else otherwise


def _why_model(run: NewRun) -> str:
    if "parameters" in run.asked:
        return "the model size that is nearest to the number that you asked for"
    return (
        f"the largest model that can read 20 tokens per parameter in {format_seconds(run.limits.seconds)}, or the "
        "smallest model if none can"
    )


def _why_precision(machine: Machine) -> str:
    if machine.has_bf16:
        return "this machine multiplies bf16 matrices fast"
    return "these GPUs have no bf16 arithmetic" if machine.gpus else "these processors have no bf16 arithmetic"


def _replicas(machine: Machine) -> str:
    return "one replica on each GPU" if machine.gpus else "one process, because the machine has no GPU"


def _scalar(value: Any) -> str:
    """Return a value as a YAML scalar. Words are plain if YAML reads them back as the same string."""
    import yaml

    if isinstance(value, str):
        plain = bool(value) and not set(value) & set(" #:,[]{}&*!|>'\"%@`\n\t") and yaml.safe_load(value) == value
        return value if plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    return str(value)
