"""Every rule that removes a document: its title and its family, for people. The one place that names them."""

from __future__ import annotations

from data_prep.corpus.clean import CONTAMINATED, DUPLICATE_KINDS
from data_prep.corpus.judge import RULES

ALL_RULES = (*RULES, CONTAMINATED, *DUPLICATE_KINDS.values())
"""Everything that removes a document, in the order of the stages."""

FAMILIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "length": ("too short or long", ("empty", "min_characters", "min_words", "max_words")),
    "words": (
        "odd words",
        (
            *("min_mean_word_length", "max_mean_word_length", "min_alphabetic_word_ratio"),
            *("min_script_ratio", "min_stop_word_ratio", "max_flagged_word_ratio"),
        ),
    ),
    "repetition": (
        "repetition",
        (
            *("max_character_repetition_ratio", "max_word_repetition_ratio", "max_duplicate_line_ratio"),
            *("max_duplicate_line_fraction", "max_duplicate_paragraph_fraction", "max_duplicate_paragraph_ratio"),
            *(f"max_top_{words}gram_ratio" for words in (2, 3, 4)),
            *(f"max_duplicate_{words}gram_ratio" for words in range(5, 11)),
        ),
    ),
    "symbols": (
        "symbols and digits",
        (
            *("max_special_ratio", "max_digit_ratio", "max_hash_ratio", "max_ellipsis_ratio"),
            *("max_ellipsis_line_ratio", "max_curly_brackets"),
        ),
    ),
    "layout": (
        "lists and menus",
        (
            *("max_short_line_ratio", "max_few_word_line_ratio", "min_terminal_punctuation_ratio"),
            *("max_newline_ratio", "max_bullet_ratio"),
        ),
    ),
    "encoding": ("broken encoding", ("max_replacement_ratio",)),
    "code": (
        "odd source code",
        ("max_longest_line", "max_mean_line_length", "min_alphanumeric_ratio", "max_generated", "licence"),
    ),
    "language": ("wrong language", ("wrong_language",)),
    "evaluation": ("evaluation texts", ("contaminated",)),
    "duplicates": ("duplicates", ("exact_duplicate", "near_duplicate")),
}
"""Family -> its words and its rules; colours are the page's variables of the same names."""

TITLES = {
    "empty": "Nothing left but white space",
    "min_characters": "Too few characters",
    "min_words": "Too few words",
    "max_words": "Too many words",
    "min_mean_word_length": "Words too short on average",
    "max_mean_word_length": "Words too long on average",
    "max_character_repetition_ratio": "Runs of characters that repeat",
    "max_word_repetition_ratio": "Runs of words that repeat",
    "max_special_ratio": "Too much punctuation and symbols",
    "max_digit_ratio": "Too many digits",
    "min_alphabetic_word_ratio": "Too few words with a letter",
    "max_short_line_ratio": "Too many short lines",
    "max_duplicate_line_ratio": "Lines that repeat",
    "min_terminal_punctuation_ratio": "Too few lines end a sentence",
    "max_newline_ratio": "Too many line ends for its words",
    "max_bullet_ratio": "Too many bullets",
    "max_replacement_ratio": "Broken encoding",
    "max_duplicate_line_fraction": "Too many lines that repeat",
    "max_duplicate_paragraph_fraction": "Too many paragraphs that repeat",
    "max_duplicate_paragraph_ratio": "Paragraphs that repeat",
    "max_top_2gram_ratio": "The same two words again and again",
    "max_top_3gram_ratio": "The same three words again and again",
    "max_top_4gram_ratio": "The same four words again and again",
    **{f"max_duplicate_{words}gram_ratio": f"Runs of {words} words that repeat" for words in range(5, 11)},
    "max_hash_ratio": "Too many number signs",
    "max_ellipsis_ratio": "Too many ellipses",
    "max_ellipsis_line_ratio": "Too many lines end in an ellipsis",
    "min_script_ratio": "Too few letters in the language's script",
    "min_stop_word_ratio": "Too few words that join others: a list, not prose",
    "max_flagged_word_ratio": "Pornographic spam",
    "max_few_word_line_ratio": "Too many lines of one or two words",
    "max_curly_brackets": "Curly brackets, as in code",
    "max_longest_line": "A line that nobody wrote by hand",
    "max_mean_line_length": "Lines too long on average",
    "min_alphanumeric_ratio": "Too few letters and digits for code",
    "max_generated": "Written by a program",
    "wrong_language": "Not in the language that its label says",
    "licence": "Code whose licence is not one of those kept",
    "contaminated": "Shares a run of words with an evaluation text",
    "exact_duplicate": "Same text as a document that stayed",
    "near_duplicate": "Nearly the text of a document that stayed",
}

STAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "language": (FAMILIES["language"][0], ("language",)),
    "limits": ("broke a limit", tuple(FAMILIES)[: tuple(FAMILIES).index("language")]),
    **{family: (FAMILIES[family][0], (family,)) for family in ("evaluation", "duplicates")},
}
"""Stage of the funnel -> its words and its families, in the order in which documents pass them."""


def family_of(rule: str) -> str:
    """The family of a rule, which is also the name of its colour."""
    return next(family for family, (_, rules) in FAMILIES.items() if rule in rules)


def stage_of(rule: str) -> str:
    """The stage of the funnel at which a rule removes documents."""
    family = family_of(rule)
    return next(stage for stage, (_, families) in STAGES.items() if family in families)


def measure_of(rule: str) -> str | None:
    """The measure that a limit is on (`max_digit_ratio` -> `digit_ratio`); None for what is no limit."""
    return rule[4:] if rule.startswith(("min_", "max_")) else None
