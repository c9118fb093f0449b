"""Translate the licences of the sources into the metadata of the Hub.

The Hub has its own list of identifiers, which are mostly SPDX identifiers in lower case. A licence that is not in the
list is stated as `license: other`, and `license_name` names it.
"""

from __future__ import annotations

from collections.abc import Mapping

OTHER = "other"
UNKNOWN = "unknown"
HUB_LICENCES = frozenset(
    """
    afl-3.0 agpl-3.0 apache-2.0 apple-amlr apple-ascl artistic-2.0 bigcode-openrail-m bigscience-bloom-rail-1.0
    bigscience-openrail-m bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0 c-uda cc cc-by-2.0 cc-by-2.5
    cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
    cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0
    cdla-permissive-2.0 cdla-sharing-1.0 creativeml-openrail-m ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2
    gfdl gpl gpl-2.0 gpl-3.0 h-research intel-research isc lgpl lgpl-2.1 lgpl-3.0 lgpl-lr lppl-1.3c mit mpl-2.0 ms-pl
    ncsa odbl odc-by ofl-1.1 openrail openrail++ osl-3.0 other pddl postgresql unknown unlicense wtfpl zlib
    """.split()  # noqa: SIM905 (a table of words)
)
"""Identifiers that the Hub accepts as `license` (huggingface.co/docs/hub/repositories-licenses)."""
_FAMILIES = {
    "gfdl-1.1": "gfdl",
    "gfdl-1.2": "gfdl",
    "gfdl-1.3": "gfdl",
    "lgplllr": "lgpl-lr",
    "odbl-1.0": "odbl",
    "odc-by-1.0": "odc-by",
    "pddl-1.0": "pddl",
}
"""SPDX identifiers, in lower case, for which the Hub has another identifier."""
_SEPARATOR = " AND "
"""Operator of SPDX expressions: all licences apply."""


def hub_identifier(licence: str) -> str:
    """Return the Hub's identifier of a licence, `other` if the Hub has none.

    The SPDX suffixes `-only` and `-or-later` of the GNU licences are left out, because the Hub does not have them.
    """
    name = licence.strip().lower()
    name = name.removesuffix("-only").removesuffix("-or-later")
    name = _FAMILIES.get(name, name)
    return name if name in HUB_LICENCES else OTHER


def licence_metadata(licences: Mapping[str, str]) -> dict[str, str]:
    """Return `license`, and `license_name` if `license` is `other`.

    If the sources have several licences, `license_name` joins them as an SPDX expression, because all of them apply.
    Without any licence, the result is `unknown`.

    Args:
        licences: licence of each source, by the source's name.
    """
    names: dict[str, str] = {}
    for licence in sorted(licences.values()):
        text = " ".join(licence.split())
        if text:
            names.setdefault(text.lower(), text)
    if not names:
        return {"license": UNKNOWN}
    identifier = hub_identifier(next(iter(names))) if len(names) == 1 else OTHER
    if identifier != OTHER:
        return {"license": identifier}
    found = [text for lower, text in names.items() if lower != OTHER]
    return {"license": OTHER} | ({"license_name": _SEPARATOR.join(found)} if found else {})
