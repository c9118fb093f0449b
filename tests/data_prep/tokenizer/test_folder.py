"""Test the folder of a tokenizer."""

from data_prep.tokenizer.folder import ORIGIN, TRAINING, write_folder


def test_a_folder_describes_only_one_origin(tmp_path):
    for history, other in ((TRAINING, ORIGIN), (ORIGIN, TRAINING)):
        write_folder(tmp_path, b"{}", {"eos": "</s>"}, history, {"from": history})
        assert (tmp_path / history).is_file()
        assert not (tmp_path / other).exists(), "the file about the origin of an earlier tokenizer is removed"
