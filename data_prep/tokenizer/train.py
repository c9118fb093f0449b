"""Trains byte-level BPE on weighted counts and writes the folder that `AutoTokenizer.from_pretrained` loads.

Files, `tokenizer.json` last: `tokenizer_config.json`, `special_tokens_map.json`, and `training.json`, which says what
was asked for and what was got (a small corpus runs out of pairs; the vocabulary is then smaller, which is no error).
Nothing in them depends on the order of shards or on time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bloomery.base.atomic import write_json, write_text
from bloomery.base.digest import digest_file
from bloomery.base.errors import ConfigError
from bloomery.base.progress import say
from bloomery.config.stages import TokenizerStage
from bloomery.contracts.mixture import read_mixture
from data_prep.tokenizer import _bpe
from data_prep.tokenizer.pre_tokenizer import BLOOM_PATTERN
from data_prep.tokenizer.vocabulary import (
    BEGIN,
    END_OF_DOCUMENT,
    PADDING,
    SPECIAL_TOKENS,
    UNKNOWN,
    build_tokenizer,
    symbol_order,
)
from data_prep.tokenizer.weigh import sum_counts, weighted_pieces

BYTES = 256


def train_tokenizer(
    stage: TokenizerStage, counts: Path, parts: list[str], mixture: Path, output: Path
) -> dict[str, Any]:
    """Train and write `output` (tokenizer.json) and the files beside it; returns the content of training.json.

    Args:
        stage: settings.
        counts: folder of the count tables, one `<part>.parquet` a part.
        parts: parts (`source/00000`) of the run.
        mixture: mixture.json.
        output: `tokenizer.json`.

    Raises:
        ConfigError: a vocabulary too small for its fixed tokens.
        InputError: missing or damaged counts or mixture, nothing to train on.
    """
    config = stage.tokenizer
    fixed = len(SPECIAL_TOKENS) + config.reserved_tokens + BYTES
    if config.vocabulary_size < fixed:
        raise ConfigError(
            f"vocabulary_size {config.vocabulary_size} is too small",
            where="tokenizer.vocabulary_size",
            expected=f"at least {fixed}: {len(SPECIAL_TOKENS)} special, {config.reserved_tokens} reserved, 256 bytes",
        )
    tables = [counts / f"{part}.parquet" for part in parts]
    wanted = read_mixture(mixture)
    data = weighted_pieces(sum_counts(tables, wanted, [part.split("/")[0] for part in parts]), wanted.datasets)
    say(f"train BPE: {len(data.counts)} pieces, {config.vocabulary_size - fixed} merges asked")
    merges = _bpe.train(
        data.pieces,
        data.offsets,
        data.counts,
        symbol_order(),
        config.vocabulary_size - fixed,
        config.min_frequency,
        config.max_token_bytes,
    )
    got = fixed + len(merges)
    if got < config.vocabulary_size:
        say(
            f"warning: the corpus has no more pairs to merge: {got} tokens instead of {config.vocabulary_size}. "
            "The run goes on with the smaller vocabulary."
        )
    report: dict[str, Any] = {
        "vocabulary_asked": config.vocabulary_size,
        "vocabulary": got,
        "merges": len(merges),
        "pieces": len(data.counts),
        "weighted_pieces": int(data.counts.sum()),
        "factors": data.factors,
        "language_bytes": data.language_bytes,
        "inputs": {
            "mixture": digest_file(mixture),
            "counts": {part: digest_file(path) for part, path in zip(parts, tables, strict=True)},
        },
    }
    _write_folder(output, build_tokenizer(merges, config.reserved_tokens, BLOOM_PATTERN), report)
    return report


def _write_folder(output: Path, tokenizer: Any, report: dict[str, Any]) -> None:
    specials = {"bos_token": BEGIN, "eos_token": END_OF_DOCUMENT, "pad_token": PADDING, "unk_token": UNKNOWN}
    write_json(output.with_name("training.json"), report)
    write_json(output.with_name("special_tokens_map.json"), specials)
    write_json(
        output.with_name("tokenizer_config.json"),
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "add_prefix_space": False,
            "clean_up_tokenization_spaces": False,
            **specials,
        },
    )
    write_text(output, tokenizer.to_str(pretty=True) + "\n")
