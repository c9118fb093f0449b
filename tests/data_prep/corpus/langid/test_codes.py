"""Test `code_of`, which maps the labels of other detectors to the codes of the accept sets."""

import pytest

from bloomery.config.languages import language_profiles
from data_prep.corpus.langid.cld2 import CODES as CLD2_CODES
from data_prep.corpus.langid.codes import CODES, code_of


@pytest.mark.parametrize(
    ("label", "code"),
    [
        ("__label__fra_Latn", "fr"), ("__label__fr", "fr"), ("fra", "fr"), ("__label__zsm_Latn", "ms"),
        ("__label__aka_Latn", "ak"), ("__label__twi_Latn", "tw"), ("__label__kik_Latn", "ki"),
        ("__label__npi_Deva", "ne"), ("__label__ory_Orya", "or"), ("__label__arb_Arab", "ar"),
        ("__label__nso", "nso"), ("__label__tum_Latn", "tum"), ("__label__fon_Latn", "fon"),
        ("__label__hin_Latn", "hi-Latn"), ("__label__hi", "hi"), ("__label__urd_Deva", "ur-Deva"),
        ("__label__zho_Hans", "zh"), ("__label__cmn_Hant", "zh-Hant"), ("__label__zh-Hant", "zh-Hant"),
        ("__label__zh", "zh-Hani"), ("__label__cmn_Hani", "zh-Hani"),
        ("__label__dyu_Latn", "dyu_Latn"), ("__label__als", "als"), ("", ""),
    ],
)  # fmt: skip
def test_code_of_maps_labels_to_codes(label: str, code: str) -> None:
    assert code_of(label) == code


def test_every_code_of_an_accept_set_is_known() -> None:
    accepted = {code for profile in language_profiles().values() for code in profile.accept}
    assert accepted == CODES
    # CLD2 lacks these codes. Their languages need the n-gram fallback or a fastText model, or a related code in the
    # accept set.
    assert accepted - CLD2_CODES == {"bm", "fon", "ki", "tum", "tw"}
