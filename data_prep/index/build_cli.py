"""`bloomery index build`: build the index of a run, as the workflow does, or an index of any token files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bloomery.contracts.index_manifest import IndexManifest

_WORKFLOW, _ALONE = "Options that the workflow uses", "Settings of the index (only without --config)"


def build(
    tokenizer: Annotated[
        Path, typer.Option(help="Tokenizer that encoded the token files: tokenizer.json or the folder that holds it.")
    ],
    output: Annotated[
        Path | None, typer.Option(help="Path of the index.json to write, or of the folder that will hold it.")
    ] = None,
    prefixes: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Token files in reading order. Each is a .bin/.idx pair, given as its .idx or as its path without "
            "suffix. Not with --config."
        ),
    ] = None,
    mixture: Annotated[
        Path | None,
        typer.Option(
            help="mixture.json with the weights of the languages. Without this file, the weight of a language is its "
            "number of tokens."
        ),
    ] = None,
    sequence_length: Annotated[
        int | None, typer.Option(min=1, help="Number of tokens in a training sample.", rich_help_panel=_ALONE)
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Number of samples that the training will read.", rich_help_panel=_ALONE)
    ] = None,
    validation_share: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Share of the documents that are used for validation instead of training.",
            rich_help_panel=_ALONE,
        ),
    ] = 0.01,
    validation_samples: Annotated[
        int,
        typer.Option(
            min=1, help="Maximum number of samples in the validation set of a language.", rich_help_panel=_ALONE
        ),
    ] = 64,
    seed: Annotated[
        int,
        typer.Option(min=0, help="Seed of the random order of documents and samples.", rich_help_panel=_ALONE),
    ] = 42,
    order: Annotated[
        str,
        typer.Option(
            help="Order in which samples are read: `epochs` (each epoch is shuffled separately) or `megatron` (the "
            "order of Megatron-LM).",
            rich_help_panel=_ALONE,
        ),
    ] = "epochs",
    config: Annotated[
        Path | None,
        typer.Option(
            help="JSON file with the settings of the index: config/index.json of the run.", rich_help_panel=_WORKFLOW
        ),
    ] = None,
    parts: Annotated[
        Path | None,
        typer.Option(
            help="JSON file that lists the names of the run's token files in reading order.", rich_help_panel=_WORKFLOW
        ),
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the run's index. Its folder tokens/ holds the token files.", rich_help_panel=_WORKFLOW
        ),
    ] = None,
    result: Annotated[
        Path | None,
        typer.Option(
            help="File that records the run's index (runs/<name>/results/index.json). Give it instead of --output. The "
            "previous index is replaced when the new index is complete.",
            rich_help_panel=_WORKFLOW,
        ),
    ] = None,
) -> None:
    """Build the index of token files: the arrays that tell the training which tokens to read, and index.json."""
    from bloomery.base.digest import digest_file
    from bloomery.base.errors import ConfigError
    from bloomery.base.progress import say
    from bloomery.config.stages import IndexStage, read_stage
    from bloomery.contracts import lineage
    from bloomery.contracts.index_manifest import TOKEN_FILES_FOLDER
    from bloomery.contracts.result import Place, new_result
    from bloomery.contracts.safe_path import read_part_names
    from bloomery.contracts.tokenizer import tokenizer_file
    from data_prep.formats.sidecar import TOKEN_FILE_SUFFIXES
    from data_prep.index.adopt import prefix_of
    from data_prep.index.build_index import TOKENS_FOLDER, build_index

    tokenizer = tokenizer_file(tokenizer)
    if config is not None:
        if prefixes or parts is None or index is None or mixture is None or result is None:
            raise ConfigError(
                "--config is given without --index, --parts, --mixture or --result, or together with PREFIXES",
                expected="--config with --index, --parts, --mixture and --result, without PREFIXES",
            )
        names = read_part_names(parts)
        with new_result(Place.of(result)) as new:
            made = build_index(
                read_stage(config, IndexStage),
                index,
                names,
                mixture,
                tokenizer,
                new.folder / "index.json",
                token_files=TOKEN_FILES_FOLDER,
            )
            prefixes_now = {f"{TOKEN_FILES_FOLDER}/{name}": index / TOKENS_FOLDER / name for name in names}
            new.linked = {
                f"{link}{suffix}": prefix.with_name(f"{prefix.name}{suffix}")
                for link, prefix in prefixes_now.items()
                for suffix in TOKEN_FILE_SUFFIXES
            }
            inputs = [lineage.inputs_of(lineage.token_manifest(index / TOKENS_FOLDER, name)) for name in names]
            new.made_from = {
                lineage.TEXTS: lineage.encoded_texts(inputs),
                **lineage.adopted_files(index / TOKENS_FOLDER, names),
                lineage.MIXTURE: digest_file(mixture),
                lineage.TOKENIZER_INPUT: made.tokenizer_digest,
                lineage.SECTION: lineage.section_digest(config),
            }
        say("\n".join(summary(made)))
        return
    if not prefixes or output is None or sequence_length is None or samples is None:
        raise ConfigError(
            "PREFIXES (the token files), --output, --sequence-length or --samples is missing",
            expected="PREFIXES with --output, --sequence-length and --samples, or --config with --index, --parts, "
            "--mixture and --result",
        )
    if order not in ("epochs", "megatron"):
        raise ConfigError(f"the value is {order!r}", where="--order", expected="`epochs` or `megatron`")
    values: dict[str, Any] = {
        "sequence_length": sequence_length,
        "train_samples": samples,
        "validation_share": validation_share,
        "validation_samples": validation_samples,
        "seed": seed,
        "order": order,
    }
    # index.json names the token files relative to its own folder, so links are resolved in all of these paths.
    folder = (output.parent if output.name == "index.json" else output).resolve()
    if folder.suffix in (".json", ".idx", ".bin") or (folder.exists() and not folder.is_dir()):
        raise ConfigError(
            f"the value is {str(output)!r}", where="--output", expected="a folder for the index, or its index.json"
        )
    stage = IndexStage.model_validate(values)
    pairs = [str(prefix.parent.resolve() / prefix.name) for prefix in map(prefix_of, prefixes)]
    if len(set(pairs)) < len(pairs):
        twice = next(pair for pair in pairs if pairs.count(pair) > 1)
        raise ConfigError(
            "these token files were given twice, so the training would read their documents twice",
            where=twice,
            expected="each pair of .bin and .idx once",
        )
    manifest = build_index(stage, folder, pairs, mixture, tokenizer, folder / "index.json")
    say("\n".join([*summary(manifest), f"next: bloomery index verify {folder}"]))


def summary(manifest: IndexManifest) -> list[str]:
    """Return a table of what the training reads, one line per language, largest share first."""
    lines = [f"{'language':<10}{'tokens':>20}{'share':>9}{'epochs':>10}"]
    for code, entry in sorted(manifest.languages.items(), key=lambda item: (-item[1].share, item[0])):
        lines.append(f"{code:<10}{entry.tokens:>20,}{entry.share:>9.2%}{entry.epochs:>10.3g}")
    return lines
