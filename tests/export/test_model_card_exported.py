"""Test the model card of a whole export: its code runs as it stands, and its digests are those of parity.json."""

from __future__ import annotations

import pytest

from bloomery.contracts.parity import read_parity
from export.export_model import export_model

pytestmark = pytest.mark.slow

NETWORKS = {
    "bloom": {},
    "gpt2": {"positions": "learned", "embedding_layernorm": False},
    "gpt_neox": {"positions": "rotary", "embedding_layernorm": False},
}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", list(NETWORKS))
def test_the_code_of_the_card_runs_as_it_stands_and_the_card_has_the_digests_of_the_inputs(
    fabricate, tmp_path, monkeypatch, capsys, name, tied
):
    run = fabricate(network={**NETWORKS[name], "tied_embeddings": tied})
    export_model(run.stage, run.paths, run.target)
    card = (run.target / "README.md").read_text()
    code = card.split("## How to load it")[1].split("```python\n")[1].split("```")[0]
    assert 'path = "."' in code
    # Somebody who downloaded the repository to another folder writes this folder's name.
    run.target.rename(tmp_path / "downloaded")
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(code.replace('path = "."', 'path = "downloaded"'), found)
    assert capsys.readouterr().out.startswith("The river")
    assert found["model"].config.model_type == name
    assert str(found["model"].dtype) == "torch.bfloat16"
    assert len(found["tokenizer"]) == run.manifest.vocabulary_size
    made_from = read_parity(tmp_path / "downloaded").made_from
    assert set(made_from) == {"checkpoint", "tokenizer", "configuration"}
    lineage = card.split("## Lineage")[1]
    for digest in made_from.values():
        assert f"| {digest} |" in lineage
    assert f"| training (configuration, tokenizer and seed) | {run.manifest.identity} |" in lineage
    assert str(tmp_path) not in card
