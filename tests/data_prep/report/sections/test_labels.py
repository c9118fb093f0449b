"""Test the report of wrong language labels."""

import json
from pathlib import Path
from typing import Any

from repository import ROOT


def test_a_wrong_label_is_shown_with_the_detected_language(corpus_run: Any, tmp_path: Path) -> None:
    texts = [json.loads(line)["text"] for line in (ROOT / "config/sample/es.jsonl").read_text().splitlines()[:4]]
    labels = ["es", "es", "eu", "hi"]
    rows = [json.dumps({"text": text, "language": code}) for text, code in zip(texts, labels, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    source = {"name": "a", "kind": "jsonl", "paths": [str(tmp_path / "a.jsonl")], "language_field": "language"}
    run = corpus_run([source], judge={"preset": "none"})
    run.all()
    data, page = run.report()
    examples = data["rules"]["wrong_language"]["examples"]
    assert [(one["language"], one["detected"]) for one in examples] == [("eu", "es"), ("hi", "es")]
    assert "labelled as hi, detected as es" in page
