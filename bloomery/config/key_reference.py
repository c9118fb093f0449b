"""Generate the reference of all configuration keys (config/README.md) and the JSON schema for editors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bloomery.base.units import SIZE_SCHEMA, format_bytes
from bloomery.config.run import RunConfig

Schema = dict[str, Any]

INTRODUCTION = """\
# Configuration

One YAML file describes one run: `snakemake --profile workflow/profiles/local --configfile my.yaml`. The command
`bloomery config reference --output config/README.md` generates this page from the typed sections in `bloomery/config`.
A test fails if the page is out of date.

- `bloomery config check my.yaml` reports all problems at once and summarises the run. `bloomery config show my.yaml`
  prints the configuration with all defaults. `bloomery config schema` prints a JSON schema for editors.
- Unknown keys are errors. The error message suggests a known key, also for names that Megatron-LM, DeepSpeed,
  torchtitan and transformers use (`lr`, `tp`, `num_layers`).
- `${NAME}` in a value is replaced by the value of the environment variable `NAME`. Messages and `bloomery config show`
  print `${NAME}`, never the value.
- In the column `type`, a section is a mapping with fixed keys, which other rows describe. A map has keys that you
  choose, such as language codes.
- Examples are written on one line, as YAML and JSON allow.
- A size is a number of bytes or has a unit: `64KiB`, `2 GB`.
- After a change of the configuration, a stage reruns only if its own part of the configuration changed or if it depends
  on a stage that reruns. `runs/<name>/config/` holds the part of each stage.

Shipped configurations:

- `sample.yaml`: the small corpus that the repository contains. This configuration is the default.
- `udhr.yaml`: the Universal Declaration of Human Rights in 41 languages.
- `folder.yaml`: a folder of `*.jsonl.zst` files, whose path is the value of the environment variable `BLOOMERY_CORPUS`.
- `wikipedia.yaml`: a dataset of the Hugging Face Hub.
- `catalogue.yaml`: sources that the table `catalogue.csv` lists.
- `continue-bloom-560m.yaml`: BLOOM-560M, imported from the Hub, is trained further on a folder of `*.jsonl.zst` files.
- `megatron.yaml`: token files that Megatron-LM's preprocessing wrote.
- `models/*.yaml`, such as `models/tr11-176b.yaml`: published trainings for `bloomery plan` (docs/plan.md).

The limits on documents of each language are in `languages/<code>.toml`. Published limits are in
`thresholds/<preset>.toml`.
"""


@dataclass(frozen=True)
class Key:
    """One key of the configuration."""

    path: str
    kind: str
    default: str
    what: str
    example: str | None = None
    """Example of the value as JSON, which is also valid YAML. It is None for a plain number or text."""


def json_schema() -> Schema:
    """Return the JSON schema of a run's YAML."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **RunConfig.model_json_schema()}


def sections() -> list[tuple[str, str, list[Key]]]:
    """Return (title, description, keys) of every section, in the order of `RunConfig`. Top-level keys come first."""
    schema = json_schema()
    definitions: Schema = schema["$defs"]
    plain: list[Key] = []
    found: list[tuple[str, str, list[Key]]] = [("The run", "Keys at the top level of the YAML.", plain)]
    for name, value in schema["properties"].items():
        if name == "sources":
            found += _source_sections(value["items"]["discriminator"]["mapping"], definitions)
        elif (section := _section_of(value, definitions)) is not None:
            found.append((f"`{name}`", section["description"], list(_keys(section, definitions, f"{name}."))))
        else:
            plain.append(_key(name, value, schema, definitions, name))
    return found


def _source_sections(kinds: dict[str, str], definitions: Schema) -> list[tuple[str, str, list[Key]]]:
    """Return sections with the keys of the sources. Each key is in one section.

    Keys that several kinds of source share form one section for each set of kinds, the largest set first. After these,
    each kind has a section with the keys that no other kind has.
    """
    sources = {kind: definitions[reference.rsplit("/", 1)[-1]] for kind, reference in kinds.items()}
    sharing: dict[Key, list[str]] = {}
    for kind, source in sources.items():
        for key in _keys(source, definitions, "sources[]."):
            sharing.setdefault(key, []).append(kind)
    groups: dict[tuple[str, ...], list[Key]] = {}
    for key, names in sharing.items():
        groups.setdefault(tuple(names), []).append(key)
    found = []
    for having in sorted((group for group in groups if len(group) > 1), key=len, reverse=True):
        if len(having) == len(sources):
            title, what = "`sources[]`", "Keys that every source in the list may have, whatever its kind."
        else:
            title = f"`sources[]` of the kinds {', '.join(f'`{kind}`' for kind in having)}"
            what = "Keys that sources of these kinds share."
        found.append((title, what, groups[having]))
    for kind, source in sources.items():
        own = sorted(groups[(kind,)], key=lambda key: key.path != "sources[].kind")
        found.append((f"`sources[]` of kind `{kind}`", source["description"], own))
    return found


def reference_page() -> str:
    """Return the content of config/README.md."""
    lines = [INTRODUCTION]
    for title, what, keys in sections():
        lines += [f"## {title}", "", what, "", "| key | type | default | what |", "|---|---|---|---|"]
        lines += [f"| `{key.path}` | {key.kind} | {key.default} | {_cell(key.what)} |" for key in keys]
        lines.append("")
        examples = [f"- `{key.path}: {key.example}`" for key in keys if key.example is not None]
        if examples:
            lines += ["Examples:", "", *examples, ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _keys(section: Schema, definitions: Schema, prefix: str) -> Iterator[Key]:
    seen = []
    for name, value in section["properties"].items():
        path = f"{prefix}{name}"
        inner = _section_of(value, definitions)
        per_language = _section_of(value.get("additionalProperties") or {}, definitions)
        optional = any(choice.get("type") == "null" for choice in value.get("anyOf", []))
        if inner is None or optional:
            yield _key(name, value, section, definitions, path)
        if inner is not None:
            yield from _keys(inner, definitions, f"{path}.")
        elif (item := _section_of(value.get("items") or {}, definitions)) is not None:
            yield from _keys(item, definitions, f"{path}[].")
        elif per_language is not None and per_language not in seen:
            seen.append(per_language)
            yield from _keys(per_language, definitions, f"{path}.<language>.")


def _section_of(value: Schema, definitions: Schema) -> Schema | None:
    """Return the section that is the value of a key, also if the value may be null. Return None for a plain value."""
    for choice in (value, *value.get("anyOf", [])):
        if "$ref" in choice:
            section: Schema = definitions[choice["$ref"].rsplit("/", 1)[-1]]
            return section
    return None


def _key(name: str, value: Schema, section: Schema, definitions: Schema, path: str) -> Key:
    required = name in section.get("required", [])
    default = "required" if required else _default(value)
    return Key(path, _kind(value, definitions), default, value["description"], _example(value))


def _example(value: Schema) -> str | None:
    """Return the first example of a key, or None if the key has no example or the example is a plain number or text."""
    first = next(iter(value.get("examples", [])), None)
    return json.dumps(first, ensure_ascii=False) if isinstance(first, dict | list) else None


def _kind(value: Schema, definitions: Schema) -> str:
    """Describe a key's type in words."""
    if "anyOf" in value:
        return " or ".join(_kind(choice, definitions) for choice in value["anyOf"])
    if "$ref" in value:
        return "section"
    if "enum" in value or "const" in value:
        return ", ".join(f"`{choice}`" for choice in value.get("enum", [value.get("const")]))
    if value.get("type") == SIZE_SCHEMA["type"]:
        return "size"
    if value["type"] == "array":
        entry = _kind(value["items"], definitions)
        return "list of sections" if entry == "section" else f"list of {entry}"
    if value["type"] == "object":
        return f"map from text to {_kind(value['additionalProperties'], definitions)}"
    words = {"integer": "integer", "number": "number", "string": "text", "boolean": "true or false", "null": "null"}
    limits = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {_number(value[limit])}" for limit, sign in limits.items() if limit in value]
    return " ".join([words[value["type"]], ", ".join(bounds)]).strip()


def _number(value: float) -> str:
    """Format a limit. A power of two above one million is written as `2^n`."""
    if isinstance(value, int) and value > 1_000_000 and value.bit_count() == 1:
        return f"2^{value.bit_length() - 1}"
    return f"{value:g}"


def _default(value: Schema) -> str:
    default = value.get("default")
    if value.get("type") == SIZE_SCHEMA["type"] and isinstance(default, int):
        return f"`{format_bytes(default)}`"
    return f"`{json.dumps(default, ensure_ascii=False)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
