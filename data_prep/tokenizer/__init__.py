"""Count pre-tokens, train a tokenizer from the counts, and report on the tokenizer."""
