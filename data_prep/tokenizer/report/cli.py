"""Commands `bloomery tokenizer report` and `bloomery tokenizer check`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bloomery.config.tokenizer_report import TokenizerReportConfig


PAGE = "tokenizer.html"


def report(
    tokenizer: Annotated[
        Path, typer.Option(help="Tokenizer to report on: a tokenizer.json file, or the folder that holds it.")
    ],
    corpus: Annotated[
        list[Path],
        typer.Option(
            help="Documents to take the report's sample from: a run's corpus folder, a folder of shards, or a shard. "
            "The option can be repeated."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option(help="Folder to write the report to: tokenizer.json and tokenizer.html.")
    ] = None,
    result: Annotated[
        Path | None,
        typer.Option(
            help="File that records the run's report (runs/<name>/results/report/tokenizer.json). Give it instead of "
            "--output. The previous report is replaced when the new report is complete."
        ),
    ] = None,
    parts: Annotated[
        Path | None,
        typer.Option(
            help="JSON file that lists the parts of a run's corpus (runs/<name>/config/parts.json). Only the shards of "
            "these parts are read. Default: all shards."
        ),
    ] = None,
    counts: Annotated[
        list[Path] | None,
        typer.Option(
            help="Table of pre-token counts, or a folder of such tables, to count the uses of each token exactly. The "
            "option can be repeated."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Configuration of the tokenizer's report (runs/<name>/config/tokenizer_report.json)."),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            help="Tokenizer to compare with, as NAME=TOKENIZER. TOKENIZER is a folder, a tokenizer.json file, or a Hub "
            "repository. The option can be repeated."
        ),
    ] = None,
    parallel: Annotated[
        Path | None,
        typer.Option(
            help="Aligned text, which is the same content in several languages: a folder of <language>.txt files, or a "
            "JSON Lines file."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON instead of a table.")] = False,
) -> None:
    """Write a report on a tokenizer (languages, references, vocabulary) and print a table of the languages."""
    from bloomery.base.atomic import dump_json, explained, write_json, write_text
    from bloomery.base.digest import digest_file
    from bloomery.base.progress import say
    from bloomery.contracts import lineage
    from bloomery.contracts.describe_origin import describe_origin
    from bloomery.contracts.result import written_to
    from bloomery.contracts.safe_path import read_part_names
    from bloomery.contracts.tokenizer import tokenizer_file
    from data_prep.tokenizer.report.build_report import tokenizer_report
    from data_prep.tokenizer.report.report_inputs import gather_material
    from data_prep.tokenizer.report.reported_tokenizer import ReportedTokenizer
    from data_prep.tokenizer.report.tokenizer_page import render

    settings = _settings(config, reference or [], parallel)
    path = tokenizer_file(tokenizer)
    subject = ReportedTokenizer.load(path)
    named = read_part_names(parts) if parts is not None else None
    with written_to(output, result) as new:
        with explained(new.folder):
            new.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".report-", dir=new.folder) as folder:
            material = gather_material(subject, corpus, counts or [], settings, Path(folder), named)
            found = tokenizer_report(path, subject, material, settings)
        new.made_from = {lineage.TOKENIZER_INPUT: digest_file(path)}
        if result is not None and named is not None:
            new.made_from[lineage.TEXTS] = lineage.clean_texts(corpus[0] / "clean", named)
        if config is not None:
            new.made_from[lineage.SECTION] = lineage.section_digest(config)
        write_text(new.folder / PAGE, render(found, describe_origin(new.made_from)))
        write_json(new.folder / "tokenizer.json", found)
    if as_json:
        print(dump_json(found), end="")
    else:
        _print_languages(found)
    say(f"{_headline(found)}: {new.shown / PAGE}")


def check(
    config: Annotated[
        Path,
        typer.Option(
            help="Configuration of the tokenizer's report, with the limits to check "
            "(runs/<name>/config/tokenizer_report.json)."
        ),
    ],
    output: Annotated[Path, typer.Option(help="JSON file to write the result of the check to.")],
    report: Annotated[
        Path | None,
        typer.Option(
            help="JSON file with the tokenizer's report (from `bloomery tokenizer report`). Required if limits are "
            "configured."
        ),
    ] = None,
) -> None:
    """Check a tokenizer's report against the configured limits, and list the limits that are not met.

    If a limit is not met and the configured severity is `fail`, exit with code 1.
    """
    from bloomery.base.atomic import read_json
    from bloomery.base.errors import CheckFailedError, ConfigError
    from bloomery.base.progress import say
    from bloomery.base.self_digest import write_with_own_digest
    from bloomery.config.stages import TokenizerReportStage, read_stage
    from data_prep.tokenizer.report.gate import verdict

    gate = read_stage(config, TokenizerReportStage).report.gate
    if gate is not None and gate.limits and report is None:
        raise ConfigError(
            "limits are configured for the tokenizer (report.gate), but there is no report to check",
            where=str(config),
            expected="--report FILE, where FILE is the tokenizer.json that `bloomery tokenizer report` wrote",
        )
    found = verdict(read_json(report) if report is not None else {}, gate)
    write_with_own_digest(output, found)
    messages = [failure["message"] for failure in found["failures"]]
    if found["status"] == "failed":
        raise CheckFailedError(
            "the tokenizer does not meet these limits:\n  " + "\n  ".join(messages),
            where="tokenizer.report.gate",
            expected=f"a tokenizer that meets the limits, or other limits in this section (see the report {report})",
        )
    for message in messages:
        say(f"warning: {message}")
    say(
        {
            "none": "no limits are configured for the tokenizer (tokenizer.report.gate)",
            "passed": "the tokenizer meets all configured limits (tokenizer.report.gate)",
        }.get(found["status"], "the run continues, because tokenizer.report.gate.severity is `warn`")
    )


def _settings(config: Path | None, references: list[str], parallel: Path | None) -> TokenizerReportConfig:
    from bloomery.base.errors import ConfigError
    from bloomery.config.stages import TokenizerReportStage, read_stage
    from bloomery.config.tokenizer_report import ReferenceTokenizer, TokenizerReportConfig

    settings = read_stage(config, TokenizerReportStage).report if config is not None else TokenizerReportConfig()
    named = list(settings.references)
    for text in references:
        name, mark, place = text.partition("=")
        if not mark or not name or not place:
            raise ConfigError(
                f"--reference {text!r} does not have the form NAME=TOKENIZER",
                expected="a value such as bloom=bigscience/bloom",
            )
        named.append(ReferenceTokenizer(name=name, tokenizer=place))
    changes: dict[str, Any] = {"references": named} | ({} if parallel is None else {"parallel": str(parallel)})
    return settings.model_copy(update=changes)


def _headline(found: dict[str, Any]) -> str:
    from data_prep.tokenizer.report.tokenizer_page import headline

    return headline(found)


def _print_languages(found: dict[str, Any]) -> None:
    from bloomery.base.print_table import print_table

    def shown(value: float | None, percent: bool = False) -> str:
        return "–" if value is None else f"{100 * value:.1f} %" if percent else f"{value:.2f}"

    columns = [
        "language",
        "tokens/word",
        "bytes/token",
        "characters/token",
        "single bytes",
        "parity",
        "excess over own",
    ]
    names = list(found["references"])
    rows = [
        [
            code,
            shown(entry["tokens_per_word"]),
            shown(entry["bytes_per_token"]),
            shown(entry["characters_per_token"]),
            shown(entry["single_byte_share"], percent=True),
            shown(entry["parity"]),
            shown(entry["over_monolingual"], percent=True),
            *(shown(entry["references"][name]["tokens_per_word"]) for name in names),
        ]
        for code, entry in found["languages"].items()
    ]
    print_table([*columns, *names], rows)
