"""Write the tokenizer that an export of a fabricated run needs."""

from __future__ import annotations

from fabricated_training import VOCABULARY

from bloomery.base.atomic import write_json
from bloomery.contracts.paths import RunPaths


def write_word_tokenizer(paths: RunPaths) -> None:
    """Write a tokenizer with one entry for each token id of the fabricated index."""
    from tokenizers import Tokenizer, models

    paths.tokenizer.mkdir()
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3} | {f"w{n}": n for n in range(4, VOCABULARY)}
    Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>")).save(str(paths.tokenizer / "tokenizer.json"))
    write_json(
        paths.tokenizer / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"},
    )
