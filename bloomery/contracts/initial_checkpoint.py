"""Define the checkpoint that a training starts with (`training.initial_checkpoint`), and what `import.json` records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json
from bloomery.base.digest import sha256_file
from bloomery.base.errors import ConfigError, InputError
from bloomery.config.explain_value import shown, wrong_values
from bloomery.config.model import ModelConfig
from bloomery.config.section import Positive
from bloomery.config.stages import InitialWeights
from bloomery.contracts.checkpoint import MANIFEST_NAME, CheckpointManifest, read_checkpoint, step_name
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.tokenizer import TOKENIZER
from bloomery.spec.parameters import padded_vocabulary

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

IMPORT_NAME = "import.json"
KEY = "training.initial_checkpoint"
_FREE = frozenset({"init_std", "vocabulary_multiple", "padded_vocabulary_size", "masked_rows", "stable_attention"})
"""Keys of the section `model` that do not change which weights the network has or what it computes."""


class ImportRecord(BaseModel):
    """Content of `import.json`, which `bloomery import hf` writes last."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = 1
    source: str
    """Absolute path of a folder, or the repository as the user wrote it."""
    endpoint: str | None
    """Endpoint of the Hub. None for a folder on the same machine."""
    repository: str | None
    commit: str | None
    architecture: str
    """Class of the model in transformers."""
    vocabulary_rows: Positive
    """Number of rows of the embedding in the source."""
    files: dict[str, str]
    """SHA-256 of every file of the source that was read, by name."""

    @property
    def shown(self) -> str:
        """The source in one line, such as `owner/name at 0f3c...`, or the name of a folder."""
        return f"{self.repository} at {self.commit}" if self.repository else Path(self.source).name


def read_import(folder: Path) -> ImportRecord:
    """Read the record of an imported folder.

    Raises:
        InputError: the file is missing or damaged.
    """
    path = folder / IMPORT_NAME
    try:
        return ImportRecord.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(
            f"not the record of an import: {wrong_values(error, ImportRecord)}",
            where=str(path),
            expected="a file that this version of Bloomery wrote; import the model again",
        ) from error


def imported_checkpoint(folder: Path) -> Path:
    """Return the path of the checkpoint in the imported folder `folder`."""
    return RunPaths(folder).checkpoints / step_name(0)


def checkpoint_folder(place: str) -> Path:
    """Return the checkpoint's folder that the value `place` of the key means."""
    folder = Path(place).expanduser()
    return imported_checkpoint(folder) if (folder / IMPORT_NAME).is_file() else folder


def tokenizer_file(place: str) -> Path | None:
    """Return the tokenizer.json of an imported folder. None if `place` is a checkpoint without a tokenizer."""
    folder = Path(place).expanduser()
    return RunPaths(folder).tokenizer / TOKENIZER if (folder / IMPORT_NAME).is_file() else None


def read_initial(place: str) -> CheckpointManifest:
    """Read the manifest of the checkpoint that the value `place` of the key means.

    Raises:
        ConfigError: there is no checkpoint, or its manifest is damaged.
    """
    folder = checkpoint_folder(place)
    try:
        return read_checkpoint(folder)
    except InputError as error:
        raise ConfigError(
            f"{place!r} is neither an imported folder nor a checkpoint: {error.what}",
            where=KEY,
            expected="a folder that `bloomery import hf MODEL --output FOLDER` wrote, or the folder of a checkpoint, "
            "such as runs/<name>/train/checkpoints/step00001000",
        ) from error


def initial_weights(config: RunConfig) -> InitialWeights | None:
    """Return the checkpoint that the training starts with. None if its initial weights are random.

    Raises:
        ConfigError: the checkpoint does not exist or belongs to another network.
        InputError: the record of the import is damaged.
    """
    place = config.training.initial_checkpoint
    if place is None:
        return None
    manifest, folder = read_initial(place), Path(place).expanduser()
    refuse_other_network(manifest, config.model, config.training.parallel.tensor)
    imported = (folder / IMPORT_NAME).is_file()
    source = read_import(folder).shown if imported else f"the run {manifest.config.get('name')}"
    return InitialWeights(digest=sha256_file(checkpoint_folder(place) / MANIFEST_NAME), source=source)


def refuse_other_network(manifest: CheckpointManifest, model: ModelConfig, tensor_parallel: int) -> None:
    """Check that the checkpoint's weights are those of the configured network.

    Raises:
        ConfigError: a key of the section `model` or the number of rows that are not masked differs.
    """
    saved = _saved_model(manifest)
    before, now = _network(saved), _network(model)
    if saved.positions != "learned":
        # The other encodings have no weights, so the network computes samples of any length.
        del before["sequence_length"], now["sequence_length"]
    different = [key for key in now if before[key] != now[key]]
    if different:
        raise ConfigError(
            "the checkpoint has another network: "
            + "; ".join(f"model.{key} is {shown(before[key])} there and {shown(now[key])} here" for key in different),
            where=KEY,
            expected=", ".join(f"model.{key}: {shown(before[key])}" for key in different),
        )
    rows = padded_vocabulary(manifest.vocabulary_size, model, tensor_parallel) - model.masked_rows
    if rows != (wanted := own_rows(manifest)):
        padded = -(-wanted // tensor_parallel) * tensor_parallel
        masked = f" and model.masked_rows: {padded - wanted}" if padded != wanted else ""
        raise ConfigError(
            f"the embedding would have {rows} rows that are not masked, but the checkpoint has {wanted}",
            where="model.padded_vocabulary_size",
            expected=f"model.padded_vocabulary_size: {padded}{masked}, with model.vocabulary_multiple: 1",
        )


def own_rows(manifest: CheckpointManifest) -> int:
    """Return the number of rows of a checkpoint's embedding that are not masked."""
    return manifest.vocabulary_rows - _saved_model(manifest).masked_rows


def _saved_model(manifest: CheckpointManifest) -> ModelConfig:
    return ModelConfig.model_validate(manifest.config.get("model"))


def _network(model: ModelConfig) -> dict[str, object]:
    """Return the values that determine the weights and what the network computes, by key."""
    values = {key: value for key, value in model.model_dump(mode="json").items() if key not in _FREE}
    values["feed_forward_size"] = model.ffn_size
    return values
