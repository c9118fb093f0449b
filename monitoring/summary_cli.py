"""`bloomery summary`: show what a run has produced, and the command to type next."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from monitoring.summary import RunSummary

app = typer.Typer(help="Show what a run has produced.", add_completion=False)

_RULES_SHOWN = 6
_SHOWN_TEXTS = 3
"""Number of generated texts that the summary shows. parity.json has all of them."""


@app.command()
def summary(
    run: Annotated[Path, typer.Option(help="Folder of the run, such as runs/sample.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON document on stdout.")] = False,
) -> None:
    """Show what a run has produced: documents, tokens, losses, parity, generated text, sizes, and the next command."""
    from dataclasses import asdict

    from bloomery.base.atomic import dump_json
    from bloomery.base.print_table import print_table
    from bloomery.orchestration.prepare_run import check_run
    from monitoring.summary import gather_summary

    check_run(run)
    facts = gather_summary(run)
    if as_json:
        print(dump_json({**asdict(facts), "next": next_command(facts)}), end="")
        return
    rows = lines(facts)
    styles = ["red" if text.startswith("FAILS") else "yellow" if "[OLDER THAN " in text else "" for _, text in rows]
    print_table(("", ""), rows, title=facts.run, styles=styles)


def lines(facts: RunSummary) -> list[tuple[str, str]]:
    """Return the rows of the summary, one fact per row."""
    from bloomery.base.units import format_bytes, format_energy, format_finite, format_seconds
    from bloomery.contracts.metrics_record import perplexity
    from bloomery.contracts.stale_artefacts import CORPUS, INDEX, LOGS, TOKENIZER, TRAINING
    from monitoring.shared_rows import rebuild_text, unreadable_text

    rows: list[tuple[str, str]] = []

    def mark(artefact: str, begin: int) -> None:
        """Mark the rows from number `begin` on, which show `artefact`, if this artefact is stale."""
        if artefact in facts.stale:
            rows[begin:] = [(name, f"{text} [OLDER THAN {facts.stale[artefact]}]") for name, text in rows[begin:]]

    begin = 0
    if corpus := facts.corpus:
        # A fact is None if the manifests that state it were deleted.
        if corpus.documents_in is not None:
            read = f"{corpus.documents_in:,} ({corpus.bad_rows:,} unreadable rows quarantined)"
            rows.append(("documents read", read))
        if corpus.removed is not None and corpus.bytes_out is not None:
            removed = [f"{count} {rule.replace('_', ' ')}" for rule, count in corpus.removed.items()]
            rules = f": {', '.join(removed[:_RULES_SHOWN])}" if removed else ""
            more = f", and {len(removed) - _RULES_SHOWN} more rules" if len(removed) > _RULES_SHOWN else ""
            kept = f"{corpus.documents_out:,} in {corpus.languages} languages, {format_bytes(corpus.bytes_out)} of text"
            rows += [
                ("documents removed", f"{sum(corpus.removed.values()):,}{rules}{more}"),
                ("documents kept", kept),
            ]
    mark(CORPUS, begin)
    if facts.vocabulary_size is not None:
        begin = len(rows)
        rows.append(("tokenizer", f"vocabulary of {facts.vocabulary_size:,} entries"))
        mark(TOKENIZER, begin)
    if index := facts.index:
        begin = len(rows)
        sizes = (
            f"{index.tokens:,} tokens of text, {index.train_samples:,} training samples, "
            f"{index.validation_sets} validation sets"
        )
        rows.append(("index", sizes))
        mark(INDEX, begin)
    begin = len(rows)
    if training := facts.training:
        done = (
            f"{training.iteration:,} of {training.total_iterations:,} iterations, "
            f"{training.consumed_tokens:,} consumed tokens"
        )
        speed = training.speed
        first, last = (format_finite(loss, ".3f") for loss in (training.first_loss, training.last_loss))
        rows += [
            ("training", done),
            (
                "speed",
                f"{speed.tokens_per_second:,.0f} tokens/s = {speed.tokens:,} tokens / {format_seconds(speed.seconds)} "
                "of iterations, without starts, validations and saves (median of the iterations: "
                f"{speed.median_tokens_per_second:,.0f} tokens/s)",
            ),
            ("training loss", f"{first} in the first iteration, {last} in the last"),
        ]
        if training.first_validation is not None and training.last_validation is not None:
            sets = f"{training.validation_sets} set{'' if training.validation_sets == 1 else 's'}"
            rows.append(
                (
                    "validation loss",
                    f"{training.first_validation:.3f} in the first validation, {training.last_validation:.3f} in the "
                    f"last: mean over {sets} (perplexity of the last mean: "
                    f"{perplexity(training.last_validation):,.1f})",
                )
            )
        if training.skipped_samples or training.skipped_updates:
            left_out = f"{training.skipped_samples:,} samples, {training.skipped_updates:,} updates"
            rows.append(("skipped", left_out))
        if training.energy_kwh is not None and training.co2_kg is not None:
            said = format_energy(training.energy_kwh, training.co2_kg, training.estimated_kwh)
            rows.append(("energy", f"{said}, all segments together"))
    mark(TRAINING, begin)
    for model in facts.models:
        begin = len(rows)
        verdict = "holds" if model.passed else "FAILS"
        rows += [
            (
                "model",
                f"{model.folder}: {model.parameters:,} parameters, {format_bytes(model.bytes)}, "
                f"exported from {model.checkpoint}",
            ),
            (
                "parity",
                f"{verdict}: the logits of the exported model differ from those of the training by at most "
                f"{model.max_difference:.2g} of the largest logit (limit {model.tolerance:g})",
            ),
            *(
                ("generated text", _one_line(f"{each['name']}: {each['prompt']} >>> {each['text']}"))
                for each in model.generations[:_SHOWN_TEXTS]
            ),
        ]
        mark(f"model {model.name}", begin)
    if facts.published:
        where = facts.published.get("endpoint") or f"{facts.run}/published"
        what = [facts.published[role] for role in ("model", "logs") if facts.published[role]]
        begin = len(rows)
        rows.append(("published", f"{' and '.join(what)} at {where}"))
        mark(next((name for name in facts.stale if name == LOGS or name.startswith("published ")), ""), begin)
    for name, page in facts.reports.items():
        begin = len(rows)
        rows.append((f"{name} report", page))
        mark(f"report {name}", begin)
    if facts.seconds:
        slowest = sorted(facts.seconds.items(), key=lambda item: -item[1])[:4]
        said = ", ".join(f"{rule} {format_seconds(value)}" for rule, value in slowest)
        rows.append(("slowest rules", f"{said} (run time, summed over the jobs of a rule)"))
    if facts.unreadable:
        rows.append(("not compared", unreadable_text(facts.unreadable)))
    if facts.stale:
        how = rebuild_text(facts.rebuild_command, facts.rebuild_target)
        rows.append(("out of date", f"{', '.join(facts.stale)}; to build them again: {how}"))
    rows.append(("next", next_command(facts)))
    return rows


def _one_line(text: str) -> str:
    return " ".join(text.split())


def next_command(facts: RunSummary) -> str:
    """Return the command to type next."""
    from monitoring.shared_rows import rebuild_text

    is_sample = Path(facts.run).name == "sample"
    resume = facts.resume_command or "the command that started the run"
    if facts.rebuild_target is not None:
        return rebuild_text(facts.rebuild_command, facts.rebuild_target)
    if not facts.models:
        return f"{resume} (to resume the run)"
    if is_sample:
        config = "config/udhr.yaml"
        return f"snakemake --profile slurm --configfile {config}" if facts.on_cluster else f"make run CONFIG={config}"
    return f"{resume} --report {shlex.quote(f'{facts.run}/report.zip')}"
