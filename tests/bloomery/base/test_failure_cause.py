from __future__ import annotations

from pathlib import Path

from bloomery.base.failure_cause import failure_cause


def log(folder: Path, text: str, name: str = "a.log") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_cause_is_the_last_bloomery_error_with_its_indented_lines(tmp_path: Path) -> None:
    path = log(tmp_path, "error: old\nreading 3 files\nerror: run.yaml: 2 problems\n  a: wrong\n  b: wrong\nbye\n")
    assert failure_cause([path]) == (["error: run.yaml: 2 problems", "  a: wrong", "  b: wrong"], path)


def test_an_error_line_of_a_rank_is_the_cause(tmp_path: Path) -> None:
    path = log(tmp_path, "starting\nrank 3: not finite; expected: a lower learning rate\n")
    assert failure_cause([path])[0] == ["rank 3: not finite; expected: a lower learning rate"]


def test_without_a_bloomery_error_the_exception_is_the_cause(tmp_path: Path) -> None:
    text = 'Traceback (most recent call last):\n  File "x.py", line 3, in f\n    1 / 0\n'
    text += "ZeroDivisionError: division by zero\n"
    assert failure_cause([log(tmp_path, text)])[0] == ["ZeroDivisionError: division by zero"]


def test_without_any_message_the_last_lines_are_shown(tmp_path: Path) -> None:
    path = log(tmp_path, "\n".join(f"line {number}" for number in range(100)) + "\nKilled\n")
    assert failure_cause([path])[0] == ["line 96", "line 97", "line 98", "line 99", "Killed"]


def test_the_log_with_an_error_message_is_preferred(tmp_path: Path) -> None:
    empty, plain = log(tmp_path, "", "empty.log"), log(tmp_path, "slurmstepd: started\n", "plain.log")
    ours = log(tmp_path, "error: no such file\n", "ours.log")
    assert failure_cause([empty, plain, ours]) == (["error: no such file"], ours)
    assert failure_cause([empty, plain]) == (["slurmstepd: started"], plain)


def test_a_missing_log_is_still_named(tmp_path: Path) -> None:
    assert failure_cause([tmp_path / "none.log"]) == ([], tmp_path / "none.log")
    assert failure_cause([]) == ([], None)


def test_terminal_escapes_in_a_log_become_visible_text(tmp_path: Path) -> None:
    assert failure_cause([log(tmp_path, "error: \x1b[2Jgone\n")])[0] == ["error: \\x1b[2Jgone"]


def test_a_large_log_is_read_from_its_end(tmp_path: Path) -> None:
    path = log(tmp_path, "error: early\n" + "x" * 70 + "\n")
    path.write_text("error: early\n" + ("x" * 70 + "\n") * 2000 + "error: late\n")
    assert failure_cause([path])[0] == ["error: late"]
