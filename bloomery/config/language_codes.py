"""Find the language code that a user probably meant by a wrong one. `zh` means `zhs` or `zht`; `en-US` means `en`.

Documents of a language without a profile in `config/languages` skip language identification. Therefore, without an
error, a wrong code for a language that has a profile would switch the language check off.
"""

from __future__ import annotations

from functools import cache

from bloomery.config.languages import language_profiles

ISO_TABLE = """
ak aka Latn    ar ara Arab    ar arb Arab    as asm Beng    bm bam Latn    bn ben Beng    ca cat Latn    en eng Latn
es spa Latn    eu eus Latn    fon fon Latn   fr fra Latn    gu guj Gujr    hi hin Deva    id ind Latn    ig ibo Latn
ki kik Latn    kn kan Knda    lg lug Latn    ln lin Latn    ml mal Mlym    mr mar Deva    ms msa Latn    ms zsm Latn
ne nep Deva    ne npi Deva    nso nso Latn   ny nya Latn    or ori Orya    or ory Orya    pa pan Guru    pt por Latn
rn run Latn    rw kin Latn    sn sna Latn    st sot Latn    sw swa Latn    sw swh Latn    ta tam Taml    te tel Telu
tn tsn Latn    ts tso Latn    tum tum Latn   tw twi Latn    ur urd Arab    vi vie Latn    wo wol Latn    xh xho Latn
yo yor Latn    zu zul Latn
"""
"""Language code, ISO 639-3 code and script of each language that detectors distinguish, except Chinese."""

_ISO = dict(zip(ISO_TABLE.split()[1::3], ISO_TABLE.split()[::3], strict=True))
_CHINESE = {"zh", "zho", "chi", "cmn"}
_SIMPLIFIED, _TRADITIONAL = {"hans", "cn", "sg", "chs"}, {"hant", "tw", "hk", "mo", "cht"}


@cache
def meant_codes(code: str) -> tuple[str, ...]:
    """Return the codes in `config/languages` that a wrong code may mean. Return () if the code is right or unknown.

    An unknown code (`de`) is allowed: its documents use the profile `default`, and their language is not identified.
    """
    known = {name for name in language_profiles() if name != "default"}
    if code in known:
        return ()
    base, *rest = code.lower().replace("_", "-").split("-")
    if base in _CHINESE:
        if _SIMPLIFIED & set(rest):
            return ("zhs",)
        return ("zht",) if _TRADITIONAL & set(rest) else ("zhs", "zht")
    meant = _ISO.get(base, base)
    if meant in known and meant != code:
        return (meant,)
    return tuple(name for name in sorted(known) if language_profiles()[name].name.lower() == code.lower())
