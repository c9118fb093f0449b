"""Commands of `bloomery report`, which make reports on the corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bloomery.base.progress import say

app = typer.Typer(no_args_is_help=True, help="Make reports on the corpus.")


@app.callback()
def _group() -> None:
    """Make typer treat `corpus` as a subcommand although it is the only command."""


@app.command("corpus")
def corpus_verb(
    corpus: Annotated[Path, typer.Option("--corpus", help="Folder of the corpus to report on: corpus/ of a run.")],
    parts: Annotated[
        Path,
        typer.Option(
            "--parts",
            help="JSON file with the names of the shards, such as `source/00000`: config/parts.json of the run.",
        ),
    ],
    config: Annotated[
        Path, typer.Option("--config", help="JSON file with the limits of the rules: config/judge.json of the run.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", help="Folder to write the report to: corpus.json and corpus.html.")
    ] = None,
    result: Annotated[
        Path | None,
        typer.Option(
            "--result",
            help="File that records the run's report (runs/<name>/results/report/corpus.json). Give it instead of "
            "--output. The previous report is replaced when the new report is complete.",
        ),
    ] = None,
) -> None:
    """Report which documents were removed and why, per language, source and rule."""
    from bloomery.base.atomic import write_json, write_text
    from bloomery.base.digest import digest_file
    from bloomery.config.stages import JudgeStage, read_stage
    from bloomery.contracts import lineage
    from bloomery.contracts.describe_origin import describe_origin
    from bloomery.contracts.result import written_to
    from data_prep.corpus.numbered_documents import NumberedDocuments
    from data_prep.report.clusters import clusters
    from data_prep.report.corpus_page import render
    from data_prep.report.examples import bad_row_examples, rule_examples
    from data_prep.report.gather import gather
    from data_prep.report.histograms import distributions
    from data_prep.report.what_if import quantiles, what_if

    catalogue = NumberedDocuments(corpus, parts)
    stage = read_stage(config, JudgeStage)
    report = gather(corpus, catalogue.parts, stage)
    for rule, examples in rule_examples(catalogue, stage).items():
        report["rules"][rule]["examples"] = examples
    report["bad_rows"]["examples"] = bad_row_examples(corpus, catalogue.parts)
    report["duplicates"]["clusters"] = clusters(catalogue)
    tables = [(part.split("/")[0], catalogue.path("measures", part)) for part in catalogue.parts]
    found = distributions(tables, stage)
    report["quantiles"] = quantiles(found)
    report["what_if"] = what_if(found, stage)
    with written_to(output, result) as new:
        if result is not None:
            new.made_from = {
                lineage.TEXTS: lineage.clean_texts(corpus / "clean", catalogue.parts),
                lineage.MIXTURE: digest_file(corpus / "mixture.json"),
                lineage.SECTION: lineage.section_digest(config),
            }
        write_text(new.folder / "corpus.html", render(report, describe_origin(new.made_from)))
        write_json(new.folder / "corpus.json", report)
    totals = report["totals"]
    say(
        f"{totals['documents_out']} of {totals['documents_in']} documents in {len(report['languages'])} languages "
        f"were kept; the report is {new.shown / 'corpus.html'}"
    )
