"""The folder of an evaluation takes no other one."""

import pytest

from steer_trl.evaluation import Records


def test_other_settings_are_refused(tmp_path):
    Records(tmp_path, {"top_p": 0.7})
    with pytest.raises(ValueError, match=r"other settings \(top_p: 0.7 there, 0.9 here\)"):
        Records(tmp_path, {"top_p": 0.9})
    Records(tmp_path, {"top_p": 0.9}, overwrite=True)
    (tmp_path / "settings.json").unlink()
    (tmp_path / "completions.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=r"holds completions, but settings\.json, .* is missing"):
        Records(tmp_path, {"top_p": 0.9})
