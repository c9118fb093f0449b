"""Test the licence in the card's metadata against the list of the Hub."""

from __future__ import annotations

import pytest
import yaml
from huggingface_hub import ModelCard

from export.card.licences import licence_metadata

# SPDX identifiers of ten licences (spdx.org/licenses), and their identifiers on the page
# huggingface.co/docs/hub/repositories-licenses. None means that the page does not list the licence.
LICENCES = [
    ("Apache-2.0", "apache-2.0"),
    ("MIT", "mit"),
    ("CC-BY-SA-4.0", "cc-by-sa-4.0"),
    ("CC0-1.0", "cc0-1.0"),
    ("ODC-By-1.0", "odc-by"),
    ("ODbL-1.0", "odbl"),
    ("GPL-3.0-or-later", "gpl-3.0"),
    ("CDLA-Permissive-2.0", "cdla-permissive-2.0"),
    ("CC-BY-NC-SA-3.0-IGO", None),
    ("OGL-UK-3.0", None),
]


@pytest.mark.parametrize(("spdx", "listed"), LICENCES)
def test_a_licence_that_the_hub_does_not_list_is_named_beside_other(spdx, listed):
    found = licence_metadata({"a": spdx, "b": spdx.lower()})
    expected = {"license": listed} if listed else {"license": "other", "license_name": spdx}
    assert found == expected
    card = ModelCard(f"---\n{yaml.safe_dump(found)}---\n\n# text\n")
    assert (card.data.license, card.data.license_name) == (expected["license"], expected.get("license_name"))


@pytest.mark.parametrize(
    ("licences", "expected"),
    [
        ({"a": "CC0-1.0", "b": "MIT"}, {"license": "other", "license_name": "CC0-1.0 AND MIT"}),
        ({"a": "MIT", "b": "other"}, {"license": "other", "license_name": "MIT"}),
        ({"a": " my\n own "}, {"license": "other", "license_name": "my own"}),
        ({"a": "3.0"}, {"license": "other", "license_name": "3.0"}),
        ({"a": "other"}, {"license": "other"}),
        ({"a": "unknown"}, {"license": "unknown"}),
        ({}, {"license": "unknown"}),
    ],
)
def test_several_or_unusual_licences_stay_readable(licences, expected):
    assert licence_metadata(licences) == expected
    assert yaml.safe_load(yaml.safe_dump(expected)) == expected
