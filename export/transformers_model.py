"""Build the configuration of the transformers model, and check that the model has exactly the exported tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bloomery.base.errors import CheckFailedError
from bloomery.spec.transformers_families.family import HEAD, Family

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from export.write_configs import TokenizerFacts


def transformers_config(
    family: Family,
    model: ModelConfig,
    vocabulary_rows: int,
    tensor_parallel: int,
    tokenizer: TokenizerFacts,
    dtype: str,
) -> Any:
    """Return the configuration of the exported model.

    Every value that the training decided is set, so that no default of transformers replaces it.
    """
    import transformers

    values: dict[str, Any] = {
        **family.config(model),
        **family.fixed,
        "architectures": [family.architecture],
        "vocab_size": vocabulary_rows,
        "initializer_range": model.standard_deviation,
        "tie_word_embeddings": model.tied_embeddings,
        "bos_token_id": tokenizer.special_ids["bos"],
        "eos_token_id": tokenizer.special_ids["eos"],
        "pad_token_id": tokenizer.special_ids["pad"],
        "dtype": dtype,
    }
    if family.model_type == "bloom":
        values["pretraining_tp"] = tensor_parallel
    return getattr(transformers, family.config_class)(**values)


def empty_model(config: Any) -> Any:
    """Return the transformers model of a configuration on torch's meta device, where tensors use no memory."""
    import torch
    import transformers

    architecture = getattr(transformers, config.architectures[0])
    with torch.device("meta"):
        model = architecture._from_config(config)
    return model.eval()


def check_tensors(config: Any, exported: Mapping[str, tuple[int, ...]]) -> None:
    """Check that the transformers model of `config` has exactly the exported tensors.

    Args:
        config: configuration of the exported model.
        exported: shape of each exported tensor, by its name in transformers. A tied head is not exported.

    Raises:
        CheckFailedError: a name or a shape does not match.
    """
    theirs = {name: tuple(tensor.shape) for name, tensor in empty_model(config).state_dict().items()}
    if config.tie_word_embeddings:
        theirs.pop(HEAD, None)
    wrong = [
        f"the shape of {name} is {exported.get(name, '(no such parameter)')} in the export and "
        f"{theirs.get(name, '(no such parameter)')} in transformers"
        for name in sorted(exported.keys() | theirs.keys())
        if exported.get(name) != theirs.get(name)
    ]
    if wrong:
        raise CheckFailedError(
            f"this network cannot be exported as {config.architectures[0]}: " + "; ".join(wrong[:5]),
            where="model",
            expected="exactly the tensors of the class in transformers; install the transformers version of "
            "requirements.lock, and report an error of Bloomery if the difference remains",
        )
