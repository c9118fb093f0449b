"""`bloomery index`: adopt, build, verify, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from data_prep.index.build_cli import build

app = typer.Typer(no_args_is_help=True, help="Build, verify and show a token index; adopt existing token files.")

Tokenizer = Annotated[
    Path, typer.Option(help="Tokenizer that encoded the token files: tokenizer.json or the folder that holds it.")
]


@app.command()
def adopt(
    prefix: Annotated[
        Path, typer.Argument(help="Token files of Megatron: the .idx, the .bin or their path without suffix.")
    ],
    tokenizer: Tokenizer,
    source: Annotated[str, typer.Option(help="Name of the source to record for every document.")],
    language: Annotated[str, typer.Option(help="BLOOM language code to record for every document, such as fr.")],
    output: Annotated[
        Path,
        typer.Option(
            help="Path of the .idx link to write. The .bin link and the table of the documents are written beside it."
        ),
    ],
    end_of_document: Annotated[
        bool,
        typer.Option(
            "--end-of-document/--without-end-of-document",
            help="Whether every document in the token files ends with the tokenizer's end-of-document token.",
        ),
    ] = True,
) -> None:
    """Verify existing Megatron token files (.bin, .idx), link to them and write a table of their documents."""
    from bloomery.base.progress import say
    from bloomery.contracts.tokenizer import tokenizer_file
    from data_prep.index.adopt import adopt_tokens, prefix_of

    counts = adopt_tokens(
        prefix_of(prefix),
        tokenizer_file(tokenizer),
        source,
        language,
        prefix_of(output),
        ends_with_end_of_document=end_of_document,
    )["counts"]
    say(f"adopted {counts['documents']:,} documents with {counts['tokens']:,} tokens")


app.command()(build)


@app.command()
def verify(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of the index to verify, or of the run that holds it.")
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="Folder of the index or of the run, if the argument FOLDER is not given.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary of the verified index as JSON.")] = False,
) -> None:
    """Verify all files of an index. If a check fails, print what is wrong and exit with code 1."""
    from bloomery.base.atomic import dump_json
    from bloomery.base.errors import ConfigError
    from bloomery.base.progress import say
    from bloomery.base.self_digest import with_own_digest
    from bloomery.contracts.paths import RunPaths
    from data_prep.index.verify_index import verify_index

    found = folder or index
    if found is None or (folder and index):
        raise ConfigError(
            "exactly one index must be given",
            expected="the folder of an index or of a run, either as the argument FOLDER or with --index",
        )
    run = RunPaths(found)
    result = verify_index(run.index if run.index_manifest.is_file() else found)
    if json:
        print(dump_json(with_own_digest(result)), end="")
    else:
        say(
            f"the index passed every check: {result['train_samples']} training samples, {result['tokens']} tokens "
            "in the token files"
        )


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="Folder of the index to show, or of the run that holds it.")],
    json: Annotated[bool, typer.Option("--json", help="Print the content of the index as JSON.")] = False,
) -> None:
    """Print the content of an index: tokens, mixture, datasets, stages of the blend, validation sets, token files."""
    from bloomery.base.atomic import dump_json
    from bloomery.base.print_table import print_titled
    from data_prep.index.show import facts, read_index, tables

    manifest = read_index(folder)
    if json:
        print(dump_json(facts(manifest)), end="")
        return
    for title, columns, rows in tables(manifest):
        print_titled(columns, rows, title)
