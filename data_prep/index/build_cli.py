"""`bloomery index build`: build the index of a run, as the workflow does, or of any encoded pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bloomery.contracts.index import IndexManifest

_WORKFLOW, _ALONE = "Options that the workflow uses", "Options without --config"


def build(
    tokenizer: Annotated[Path, typer.Option(help="tokenizer.json that encoded the pairs, or its folder.")],
    output: Annotated[Path, typer.Option(help="The index.json to write, or the index folder that will hold it.")],
    prefixes: Annotated[
        list[Path] | None,
        typer.Argument(help="Encoded pairs in order, each a path without suffix or its .idx. Not with --config."),
    ] = None,
    mixture: Annotated[
        Path | None, typer.Option(help="mixture.json. Without it, each language weighs as many tokens as it has.")
    ] = None,
    sequence_length: Annotated[
        int | None, typer.Option(min=1, help="Tokens per sample.", rich_help_panel=_ALONE)
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Number of training samples.", rich_help_panel=_ALONE)
    ] = None,
    validation_share: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Share of documents held out for validation.", rich_help_panel=_ALONE),
    ] = 0.01,
    validation_samples: Annotated[
        int, typer.Option(min=1, help="Maximum samples per validation set.", rich_help_panel=_ALONE)
    ] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the shuffles.", rich_help_panel=_ALONE)] = 42,
    order: Annotated[
        str, typer.Option(help="Reading order of the samples: epochs or megatron.", rich_help_panel=_ALONE)
    ] = "epochs",
    config: Annotated[
        Path | None,
        typer.Option(help="The index stage's section of the run's configuration (JSON).", rich_help_panel=_WORKFLOW),
    ] = None,
    parts: Annotated[
        Path | None, typer.Option(help="JSON list of the run's pairs in order.", rich_help_panel=_WORKFLOW)
    ] = None,
    index: Annotated[Path | None, typer.Option(help="Folder of the index.", rich_help_panel=_WORKFLOW)] = None,
) -> None:
    """Build the document, sample, shuffle and blend arrays and index.json."""
    from bloomery.base.atomic import read_json
    from bloomery.base.errors import ConfigError
    from bloomery.base.progress import say
    from bloomery.config.stages import IndexStage, read_stage
    from bloomery.contracts.tokenizer import tokenizer_file
    from data_prep.index.adopt import prefix_of
    from data_prep.index.build_index import build_index

    tokenizer = tokenizer_file(tokenizer)
    if config is not None:
        if prefixes or parts is None or index is None or mixture is None:
            raise ConfigError(
                "wrong options with --config", expected="--config with --index, --parts and --mixture, without PREFIXES"
            )
        made = build_index(read_stage(config, IndexStage), index, read_json(parts), mixture, tokenizer, output)
        say("\n".join(summary(made)))
        return
    if not prefixes or sequence_length is None or samples is None:
        raise ConfigError(
            "PREFIXES, --sequence-length or --samples is missing",
            expected="PREFIXES with --sequence-length and --samples, or --config",
        )
    if order not in ("epochs", "megatron"):
        raise ConfigError(f"the value is {order!r}", where="--order", expected="epochs or megatron")
    values: dict[str, Any] = {
        "sequence_length": sequence_length,
        "train_samples": samples,
        "validation_share": validation_share,
        "validation_samples": validation_samples,
        "seed": seed,
        "order": order,
    }
    # Both this folder and the pairs are resolved, because index.json names the pairs relative to itself.
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
            "the pair was given twice, so its documents would be read twice", where=twice, expected="each pair once"
        )
    manifest = build_index(stage, folder, pairs, mixture, tokenizer, folder / "index.json")
    say("\n".join([*summary(manifest), f"next: bloomery index verify {folder}"]))


def summary(manifest: IndexManifest) -> list[str]:
    """Return a table of what the training reads, one line per language, largest share first."""
    lines = [f"{'language':<10}{'tokens':>20}{'share':>9}{'epochs':>10}"]
    for code, entry in sorted(manifest.languages.items(), key=lambda item: (-item[1].share, item[0])):
        lines.append(f"{code:<10}{entry.tokens:>20,}{entry.share:>9.2%}{entry.epochs:>10.3g}")
    return lines
