"""National telephone numbers: one row per country with the formats of numbers for calls within the country.

To add a country, add a row. The formats come from the countries' numbering plans (ITU-T E.129 notices).
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Country(NamedTuple):
    """How a country writes its telephone numbers."""

    code: str
    """ISO 3166-1 code of the country."""
    languages: str
    """Codes of the languages in which a number in a `sure` form needs no word before it."""
    national: str
    """Pattern of the digits of any national number. If the number is not in a `sure` form, a word such as `tel` must
    come before it."""
    sure: list[str] = []
    """Patterns of written `national` numbers that are rarely anything else. `~` is one separator (space, dot, hyphen),
    the same one in all places. A form that contains `?~` also matches without any separator."""


COUNTRIES = [
    Country(
        "US", "en", r"1?[2-9]\d{2}[2-9]\d{6}", [r"(?:1-)?[2-9]\d\d-[2-9]\d\d-\d{4}", r"\([2-9]\d\d\) ?[2-9]\d\d-\d{4}"]
    ),
    Country("GB", "en", r"0[1-35789]\d{8,9}", [r"07\d{3}~\d{3}~?\d{3}", r"020 [378]\d{3} \d{4}"]),
    Country("FR", "fr", r"0[1-9]\d{8}", [r"0[1-9]~\d\d~\d\d~\d\d~\d\d", r"0[67]\d{8}"]),
    Country("ES", "es ca eu", r"[6789]\d{8}", [r"[6789]\d\d \d\d \d\d \d\d", r"[6789]\d-\d{3}-\d\d-\d\d"]),
    Country("PT", "pt", r"[29]\d{8}"),
    Country("BR", "pt", r"0?[1-9]{2}9?[2-9]\d{7}", [r"\(0?[1-9]{2}\) ?(?:9 ?)?\d{4}-\d{4}", r"[1-9]{2} 9\d{4}-\d{4}"]),
    Country("MX", "es", r"[2-9]\d{9}", [r"\([2-9]\d{1,2}\) ?\d{3,4}[ -]\d{4}"]),
    Country("AR", "es", r"0?[1-3]\d{9}", [r"\(0[1-3]\d{1,3}\) ?\d{2,4}-\d{4}"]),
    Country("CO", "es", r"3\d{9}|60\d{8}"),
    Country("CL", "es", r"[29]\d{8}"),
    Country(
        "IN",
        "as bn gu hi kn ml mr or pa ta te ur",
        r"0?[6-9]\d{9}|0[1-8]\d{9}",
        [r"[6-9]\d{4}[ -]\d{5}", r"0[1-8]\d{1,3}-\d{6,8}"],
    ),
    Country("PK", "ur pa", r"03\d{9}|0[24-9]\d{7,9}", [r"03\d\d[ -]?\d{7}", r"0[24-9]\d{1,2}-\d{7,8}"]),
    Country("BD", "bn", r"01[3-9]\d{8}|0[2-9]\d{6,9}", [r"01[3-9]\d\d-?\d{6}", r"01[3-9]-\d{4}-\d{4}"]),
    Country("NP", "ne", r"9[678]\d{8}|0\d{7,8}", [r"9[78]\d-?\d{7}", r"01-[4-6]\d{6}"]),
    Country("LK", "ta", r"0[1-9]\d{8}", [r"07[0-8]~\d{3}~\d{4}"]),
    Country(
        "CN",
        "zhs",
        r"1[3-9]\d{9}|0\d{9,11}|[48]00\d{7}",
        [r"1[3-9]\d~\d{4}~\d{4}", r"0(?:10|2\d|[3-9]\d\d)-\d{7,8}", r"400-\d{3}-\d{4}"],
    ),
    Country(
        "TW",
        "zht",
        r"09\d{8}|0[2-8]\d{7,8}",
        [r"09\d\d-\d{3}-\d{3}", r"09\d{8}", r"\(0[2-8]\d?\) ?\d{3,4}-\d{4}", r"0[2-8]-\d{4}-\d{4}"],
    ),
    Country("HK", "zht", r"[2356789]\d{7}"),
    Country(
        "VN",
        "vi",
        r"0[235789]\d{8,9}",
        [
            r"0[35789]\d{8}",
            r"0[35789]\d\d~\d{3}~\d{3}",
            r"0[35789]\d~\d{3}~\d\d~\d\d",
            r"\(02\d\d?\) ?\d{4}[ .]?\d{3,4}",
        ],
    ),
    Country(
        "ID",
        "id",
        r"08\d{8,11}|0[2-7]\d{7,10}",
        [r"08\d\d~\d{3,4}~\d{3,5}", r"08[1-9]\d{8,9}", r"\(0[2-7]\d{1,2}\) ?\d{5,8}"],
    ),
    Country("EG", "ar", r"01[0125]\d{8}|0[2-9]\d{7,8}", [r"01[0125]\d{8}"]),
    Country("SA", "ar", r"05\d{8}|01\d{8}", [r"05\d?~\d{3}~?\d{4}"]),
    Country("MA", "ar fr", r"0[5-8]\d{8}", [r"0[5-7]~\d\d~\d\d~\d\d~\d\d", r"0[5-7]\d\d~\d{3}~\d{3}"]),
    Country("DZ", "ar fr", r"0[567]\d{8}|0[234]\d{7}", [r"0[567]\d\d~\d\d~\d\d~\d\d"]),
    Country("KE", "sw ki", r"0[17]\d{8}|020\d{6,7}", [r"07\d\d?~\d{3}?~\d{3}"]),
    Country("TZ", "sw", r"0[67]\d{8}|02\d{8}", [r"0[67]\d\d~\d{3}~\d{3}"]),
    Country("UG", "lg", r"0[2347]\d{8}", [r"07\d\d?~\d{3}?~\d{3}"]),
    Country("RW", "rw", r"07[2389]\d{7}", [r"07[2389]\d?~\d{3}?~\d{3}"]),
    Country("BI", "rn", r"[267]\d{7}"),
    Country("CD", "ln", r"0[89]\d{8}", [r"0[89]\d~\d{3}~\d{2}~\d{2}", r"0[89]\d{8}"]),
    Country("NG", "yo ig", r"0[789][01]\d{8}", [r"0[789][01]\d?~\d{3}?~\d{4}"]),
    Country("GH", "ak tw", r"0[235]\d{8}", [r"0[25]\d?~\d{3}?~\d{4}"]),
    Country("SN", "wo", r"[37][03-8]\d{7}", [r"7[05-8]~\d{3}~\d\d~\d\d"]),
    Country("ML", "bm", r"[25-9]\d{7}"),
    Country("BJ", "fon", r"01[24-9]\d{7}", [r"01~[24-9]\d~\d\d~\d\d~\d\d"]),
    Country("CI", "", r"0[157]\d{8}|2[157]\d{8}"),
    Country("ZA", "zu xh st nso tn ts", r"0[1-8]\d{8}", [r"0[6-8]\d?~\d{3}?~\d{4}", r"0[1-5]\d~\d{3}~\d{4}"]),
    Country("BW", "tn", r"7[1-8]\d{6}"),
    Country("LS", "st", r"[256]\d{7}"),
    Country("ZW", "sn", r"07[1378]\d{7}", [r"07[1378]\d?~\d{3}?~\d{3}"]),
    Country("MW", "ny tum", r"0[189]\d{8}|01\d{6}", [r"0[89]\d\d~\d\d~\d\d~\d\d", r"0[89]{2}\d{7}"]),
    Country("ZM", "ny tum", r"0[79][5-7]\d{7}", [r"0[79][5-7]\d?~\d{3}?~\d{3}"]),
    Country("MZ", "ts", r"8[2-7]\d{7}"),
]


def compiled(form: str) -> re.Pattern[str]:
    """Compile a `sure` form. The first `~` becomes a group, and every other `~` becomes a reference to this group."""
    separator = r"([ .\-]?)" if "?~" in form else r"([ .\-])"
    return re.compile(form.replace("?~", "~").replace("~", separator, 1).replace("~", r"\1"))


def written_forms(language: str) -> list[tuple[re.Pattern[str], re.Pattern[str]]]:
    """Return (form, plan) for each `sure` form of a language's countries. A number's digits must match the plan."""
    spoken = [country for country in COUNTRIES if language in country.languages.split()]
    return [(compiled(form), re.compile(country.national)) for country in spoken for form in country.sure]


NATIONAL = re.compile("|".join(f"(?:{country.national})" for country in COUNTRIES))
"""Pattern of the digits of a national number of any of the countries."""
