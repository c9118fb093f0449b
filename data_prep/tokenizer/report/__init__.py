"""Report on a tokenizer: figures per language, facts about its vocabulary, a gate with limits, and an HTML page."""
