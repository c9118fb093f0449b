"""Test the language profiles and the published thresholds."""

import math

from bloomery.config.corpus import JudgeConfig, Thresholds
from bloomery.config.languages import language_profiles, published_thresholds, resolved_thresholds

ROOTS = """
ak ar as bm bn ca en es eu fon fr gu hi id ig ki kn lg ln ml mr ne nso ny or pa pt rn rw sn st sw ta te tn ts tum tw ur
vi wo xh yo zhs zht zu
""".split()  # noqa: SIM905


def test_each_language_of_roots_has_a_profile_and_each_number_its_source() -> None:
    profiles = language_profiles()
    assert sorted(profiles) == sorted([*ROOTS, "code", "default"])
    for code, profile in profiles.items():
        limits = profile.thresholds.model_dump(exclude_none=True)
        lists = {name for name in ("stop_words", "flagged_words") if getattr(profile, name)}
        assert limits.keys() | lists == profile.origin.keys(), code
        assert all(math.isfinite(limit) and limit >= 0 for limit in limits.values()), code
        assert all(limit <= 1 for name, limit in limits.items() if name.endswith("_ratio")), code
        assert limits["min_words"] <= 50, code
        assert limits.get("max_mean_word_length", 5) <= 20, (
            "larger values, such as FineWeb-2's 3141 for Xhosa, are noise"
        )
    assert {code for code, profile in profiles.items() if profile.unspaced} == {"zhs", "zht"}
    assert {code for code, profile in profiles.items() if not profile.accept} == {"code", "default"}


def test_presets_have_the_published_thresholds() -> None:
    def limits(preset: str, language: str) -> dict[str, float]:
        resolved = resolved_thresholds(JudgeConfig.model_validate({"preset": preset}))
        return (resolved.get(language) or resolved["default"]).model_dump(exclude_none=True)

    # The thresholds of Rae et al. 2021, table A1, apply to every language. For source code, the presets gopher, roots
    # and fineweb2 have Bloomery's own thresholds.
    assert limits("gopher", "fr") == limits("gopher", "xx")
    assert (limits("gopher", "fr")["min_words"], limits("gopher", "fr")["max_top_2gram_ratio"]) == (50, 0.2)
    for preset in ("gopher", "roots", "fineweb2"):
        assert limits(preset, "code") == limits("bloomery", "code")
    # Source: parameters_filtering.py of ROOTS. There, Hindi vowel signs count as special characters, so the preset has
    # no limit for them in Hindi.
    assert limits("roots", "fr")["max_word_repetition_ratio"] == 0.13
    assert limits("roots", "xx")["min_words"] == 10
    assert "max_special_ratio" not in limits("roots", "hi")
    # Source: fineweb-2/configs. The values that it has for a language replace Gopher's values.
    assert (limits("fineweb2", "hi")["max_mean_word_length"], limits("fineweb2", "hi")["min_words"]) == (21, 50)
    assert limits("fineweb2", "sw")["max_duplicate_line_fraction"] == 0.302
    assert set(published_thresholds("fineweb2")) - {"default"} == set(ROOTS) - {"ak", "en", "zht"}
    assert resolved_thresholds(JudgeConfig(preset="none")) == {"default": Thresholds()}
