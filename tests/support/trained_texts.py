"""A small multilingual corpus, and the weights of its languages."""

# Article 1 of the Universal Declaration of Human Rights, and code with tags that spell special tokens.
TEXTS = {
    "en": ["All human beings are born free and equal in dignity and rights. " * 3, "reason and conscience"],
    "fr": ["Tous les êtres humains naissent libres et égaux en dignité et en droits."],
    "hi": ["सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।"],
    "zhs": ["人人生而自由，在尊严和权利上一律平等。"],
    "code": ["<s><s><s></s></s>    return x\n" * 5 + "<reserved_1><reserved_1>"],
}
WEIGHTS = {"en": 0.4, "fr": 0.2, "hi": 0.2, "zhs": 0.1, "code": 0.1}
