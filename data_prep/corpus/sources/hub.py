"""Stream the rows of a dataset on a Hub, or of a local folder that `datasets` can load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bloomery.base.errors import BloomeryError, InputError, TryAgainError
from bloomery.config.sources import HubSource
from data_prep.corpus.rows import Fields, Item, Observe, row_from_fields


def read_hub(source: HubSource, max_bytes: int, observe: Observe | None = None) -> Iterator[Item]:
    """Yield the rows of the dataset. The key is the value of `id_field`, or else the split and the row's number from 1.

    `observe` is called with the fields of each row.

    Raises:
        InputError: the dataset, configuration, split or revision does not exist, or `datasets` cannot decode a row.
        TryAgainError: the endpoint does not respond.
    """
    fields = Fields(source.text_field, source.language_field, source.id_field, source.language, max_bytes, observe)
    rows = iter(_open(source))
    line = 0
    while source.max_documents is None or line < source.max_documents:
        try:
            values = next(rows)
        except StopIteration:
            return
        except Exception as error:
            raise _explained(source, error, f"row {line + 1}") from error
        line += 1
        yield row_from_fields(values, fields, source.split, line)


def _open(source: HubSource) -> Any:
    import datasets

    try:
        if (Path(source.dataset) / "dataset_dict.json").is_file():
            return datasets.load_from_disk(source.dataset)[source.split].to_iterable_dataset()
        if (Path(source.dataset) / "state.json").is_file():
            return datasets.load_from_disk(source.dataset).to_iterable_dataset()
        return datasets.load_dataset(
            source.dataset,
            source.config_name,
            split=source.split,
            revision=source.revision,
            streaming=True,
        )
    except Exception as error:
        raise _explained(source, error, f"split {source.split!r}") from error


_CAUSES = {
    "DatasetNotFoundError": "there is no such dataset, or the token may not read it",
    "GatedRepoError": "the dataset's owner must first grant you access on the Hub",
    "RepositoryNotFoundError": "there is no such dataset, or the token may not read it",
    "RevisionNotFoundError": "there is no such revision",
    "DataFilesNotFoundError": "the dataset has no data files",
    "FileNotFoundError": "there is no such dataset, or a file of the dataset is missing",
    "UnicodeDecodeError": "a file is not UTF-8 text",
    "CastError": "the rows of the files have different columns",
    "DatasetGenerationError": "a file of the dataset is damaged",
}
"""Names of the errors of `datasets` and of the libraries that it uses -> the cause."""


def _cause(error: Exception) -> str:
    """Return the cause in one phrase, from the type of the error and from the values that its message names."""
    for kind in type(error).__mro__:
        if kind.__name__ in _CAUSES:
            return _CAUSES[kind.__name__]
    if "BuilderConfig" in str(error) or "Config name is missing" in str(error):
        return "there is no such configuration"
    if "split" in str(error).lower():
        return "there is no such split"
    return f"the library `datasets` reports {type(error).__name__}"


def _explained(source: HubSource, error: Exception, what: str) -> BloomeryError:
    """Convert an error of `datasets`, which raises errors of many libraries.

    Network errors become TryAgainError, because a retry may work. All other errors become InputError.
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    network = names & {"ConnectionError", "Timeout", "TimeoutError", "TransportError", "NetworkError"}
    kind = TryAgainError if network else InputError
    return kind(
        f"{what} cannot be read: {'the Hub does not respond' if network else _cause(error)}",
        where=f"sources[{source.name}].dataset {source.dataset!r}",
        expected="a working connection to the Hub; run the workflow again later"
        if network
        else "a dataset (owner/name, or a local folder) with this configuration, split and revision",
    )
