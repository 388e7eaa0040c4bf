"""The page as a file: complete in itself, with the runs' data as data; and the command that writes it."""

import base64
import hashlib
import json
import re

import pytest
from support.run_folders import SCRIPT, alarm, write_hostile, write_run

from steer_trl import report
from steer_trl.cli.main import main


def block(page):
    return re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1]


def test_the_page_is_one_file(tmp_path):
    page = report.html([write_run(tmp_path / "run")])
    assert not re.findall(r"(?:src|href)\s*=\s*[\"'](?!data:,)", page.replace(block(page), ""))
    assert "@import" not in page and "url(" not in page and "fetch(" not in page and "XMLHttpRequest" not in page
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{hashed}'" in page and "default-src 'none'" in page
    assert "Permission is hereby granted, free of charge" in script and "Leon Sorokin" in script
    assert not re.search(r"\{\{\w+\}\}", page)
    assert "innerHTML" not in script.split("/*! https://github.com/leeoniya/uPlot")[0]
    own = script[script.index("const DATA = JSON.parse") :]
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", own)


def test_the_contents_of_a_folder_are_data(tmp_path):
    page = report.html([write_hostile(tmp_path / "run")])
    data = block(page)
    assert "<" not in data and SCRIPT not in page
    assert json.loads(data)["runs"][0]["alarms"][0]["title"] == SCRIPT
    assert page.count("</script>") == 2


def test_a_run_may_contain_the_pages_placeholders(tmp_path):
    folder = write_run(tmp_path / "run", note="{{SCRIPT}} {{DATA}}")
    assert json.loads(block(report.html([folder])))["runs"][0]["settings"]["note"] == "{{SCRIPT}} {{DATA}}"


def test_the_command_writes_the_page(tmp_path, capsys):
    folder = write_run(tmp_path / "run", steps=5, token_steps=())
    alarm(folder, 3)
    main(["report", str(folder), "-o", str(tmp_path / "pages/report.html")])
    said = capsys.readouterr().out
    assert re.fullmatch(r".*pages/report\.html \(0\.\d MB\)\. Open it in a browser; it needs no network\.\n", said)
    assert json.loads(block((tmp_path / "pages/report.html").read_text()))["runs"][0]["alarms"][0]["step"] == 3
    assert [path.name for path in (tmp_path / "pages").iterdir()] == ["report.html"]
    main(["report", str(folder), "-o", str(tmp_path / "pages/report.html")])  # a page is written over


@pytest.mark.parametrize("output", ["run", "pages/", "run/_logs/metrics.jsonl", "notes.txt"])
def test_only_an_older_page_is_overwritten(tmp_path, monkeypatch, capsys, output):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run", steps=2, token_steps=())
    (tmp_path / "notes.txt").write_text("mine")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    with pytest.raises(SystemExit) as ended:
        main(["report", "run", "-o", output])
    printed = capsys.readouterr().err
    assert ended.value.code == 2 and output in printed and printed.count("\n") == 1
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before
