"""Test `bloomery tokenizer count` as users and as the workflow call it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import wait_for

from bloomery.base.digest import digest_file
from bloomery.config.stages import CountStage, write_stage
from data_prep.formats.shard import manifest_path, read_manifest

pytestmark = pytest.mark.slow

Texts = dict[str, list[str]]
MakeShard = Callable[[str, Texts], Path]
COMMAND = [sys.executable, "-m", "bloomery.cli", "tokenizer", "count"]


def count(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True)


def test_options_choose_the_pre_tokenizer_and_the_log_names_the_next_command(
    make_shard: MakeShard, tmp_path: Path
) -> None:
    shards = [make_shard("s/0", {"en": ["a 12"]}), make_shard("s/1", {"fr": ["é"], "en": ["a"]})]
    output = tmp_path / "my counts.parquet"
    done = count(*shards, "--output", output, "--pre-tokenizer", "modern", "--split-digits")
    assert (done.returncode, done.stdout) == (0, "")
    assert "6 pre-tokens, 5 unique, in 2 languages, 7 B of text" in done.stderr
    assert f"next: bloomery tokenizer train --counts '{output}' --vocab-size 250680 --output DIR" in done.stderr
    told = read_manifest(output)["counts"]["pre_tokenizer"]
    assert told == {"preset": "modern", "split_digits": True}


@pytest.mark.slow
def test_the_configuration_gives_the_same_result_as_the_same_options(make_shard: MakeShard, tmp_path: Path) -> None:
    shard = make_shard("s/0", {"en": ["a  b"]})
    config = tmp_path / "count.json"
    write_stage(config, CountStage(pre_tokenizer="bloom"))
    for name, options in (("config", ["--config", config]), ("default", []), ("bloom", ["--pre-tokenizer", "bloom"])):
        assert count(shard, "--output", tmp_path / f"{name}/counts.parquet", *options).returncode == 0
    names = ("config", "default", "bloom")
    assert len({digest_file(tmp_path / f"{name}/counts.parquet") for name in names}) == 1
    assert len({digest_file(tmp_path / f"{name}/counts.json") for name in names}) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--config", "count.json", "--split-digits"], 2, "--config, or these two options without --config"),
        (["--pre-tokenizer", "gpt2"], 2, "gpt2"),
        (["missing.parquet"], 1, "error: missing.parquet: no such file; expected: a shard"),
        (["--config", "missing.json"], 1, "missing.json"),
        (["--config", "gpt.json"], 1, "pre_tokenizer"),
    ],
)
def test_a_mistake_is_reported_without_a_traceback(
    make_shard: MakeShard, tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    (tmp_path / "gpt.json").write_text('{"pre_tokenizer": "gpt", "split_digits": false}')
    arguments = [str(tmp_path / "gpt.json") if word == "gpt.json" else word for word in arguments]
    done = count(make_shard("s/0", {"en": ["a"]}), *arguments, "--output", tmp_path / "out/counts.parquet")
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_process_leaves_no_table(make_shard: MakeShard, tmp_path: Path, number: int) -> None:
    shard = make_shard(
        "s/0", {"en": [" ".join(f"{one:x}" for one in range(start, start + 400_000)) for start in range(9)]}
    )
    output = tmp_path / "out/counts.parquet"
    process = subprocess.Popen([*COMMAND, shard, "--output", output], stderr=subprocess.DEVNULL)
    wait_for(lambda: output.parent.exists() and any(output.parent.iterdir()), 60, process, every=0.005)
    assert process.poll() is None
    os.kill(process.pid, number)
    assert process.wait(60) != 0
    assert not output.exists()
    assert not manifest_path(output).exists()
    assert count(shard, "--output", output).returncode == 0
    assert sorted(path.name for path in output.parent.iterdir()) == ["counts.json", "counts.parquet"]
    assert json.loads(manifest_path(output).read_text())["counts"]["pre_tokens"] == {"en": 9 * 400_000}
