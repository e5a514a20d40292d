"""`show`, what it draws, and what a terminal is protected from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from report_page import HOSTILE_QUESTION, LONG, MARK, hostile

import trace_hf
from trace_hf.cli import main
from trace_hf.cli.completion import completion
from trace_hf.terminal import Row, draw_timeline, visible


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["show", *map(str, arguments)])


def test_qa_record(small_sample: Path) -> None:
    record = next(trace_hf.Release.open(small_sample).records("qa_tiny"))
    result = run(record.record_id, small_sample)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == record.record_id
    assert "qa, qa_tiny" in result.output
    (answer,) = (line for line in lines if "<- answer" in line)
    assert answer.strip().startswith(f"{record.answer}.")
    assert any(line.startswith("span ") and "├" in line for line in lines)


def test_proactive_record_lists_its_windows(small_sample: Path) -> None:
    release = trace_hf.Release.open(small_sample)
    record = max(release.records("proactive"), key=lambda one: len(one.windows))
    lines = run(record.record_id, small_sample).output.splitlines()
    titles = [line for line in lines if line.startswith("window ")]
    assert len(titles) == len(record.windows)
    last = trace_hf.effective_windows(record, 10)[-1]
    assert f"W = 10 [{last.start_s:g}, {last.end_s:g})" in titles[-1]


@pytest.mark.parametrize("config", ["qa", "proactive"])
def test_inputs_only_is_the_view_of_a_model(small_sample: Path, config: str) -> None:
    release = trace_hf.Release.open(hostile(small_sample))
    record = next(release.records(config))
    row = trace_hf.load(config, release=small_sample, view="model_input")[0]
    assert json.loads(run(record.record_id, small_sample, "--inputs-only", "--json").stdout) == row
    output = run(record.record_id, small_sample, "--inputs-only").output
    assert MARK not in output
    assert "answer" not in output.replace("<b>only", "")
    assert [line.split()[0] for line in output.splitlines() if line and not line.startswith(" ")] == list(row)


def test_json_holds_record_span_and_windows(small_sample: Path) -> None:
    release = trace_hf.Release.open(small_sample)
    record = next(release.records("proactive"))
    value = json.loads(run(record.record_id, small_sample, "--json").stdout)
    assert value["record"]["record_id"] == record.record_id
    assert value["evidence_span"] == trace_hf.evidence_span(record)._asdict()
    assert [w["end_s"] for w in value["effective_windows"]["10"]] == [
        w.end_s for w in trace_hf.effective_windows(record, 10)
    ]


def test_unknown_record_is_guessed(small_sample: Path) -> None:
    record_id = next(trace_hf.Release.open(small_sample).records("qa")).record_id
    for wrong in (record_id.replace("qa", "aq"), record_id.upper().lower() + "0", record_id.rpartition(":")[2]):
        result = run(wrong, small_sample)
        assert result.exit_code == 2
        assert "did you mean" in result.stderr
        assert record_id in result.stderr


def test_excluded_record_is_said_to_be_left_out(small_sample: Path) -> None:
    record = next(trace_hf.Release.open(small_sample).records("exclusions"))
    result = run(record.record_id, small_sample)
    assert result.exit_code == 2
    assert f"leaves {record.record_id} out: {record.reason_codes[0]}" in result.stderr


def test_release_that_does_not_verify_shows_nothing(small_sample: Path) -> None:
    release = trace_hf.Release.open(small_sample)
    record_id = next(release.records("qa")).record_id
    with (small_sample / "proactive.jsonl").open("a") as file:
        file.write("\n")
    result = run(record_id, small_sample)
    assert result.exit_code == 1
    assert "proactive.jsonl" in result.stderr
    assert result.stdout == ""


def test_hostile_text_cannot_act_on_a_terminal(small_sample: Path) -> None:
    release = trace_hf.Release.open(hostile(small_sample))
    output = run(next(release.records("qa")).record_id, small_sample).output
    assert "\u202e" not in output
    assert HOSTILE_QUESTION.replace("\u202e", r"\u202e").replace("\u202c", r"\u202c") in output
    assert LONG in output
    assert visible("\x1b]0;owned\x07 [bold]x[/] é 中") == r"\x1b]0;owned\x07 [bold]x[/] é 中"


def test_timeline_is_as_wide_as_the_terminal() -> None:
    rows = [
        Row("points", [0.0, 10.0], kind="point"),
        Row("bars", bars=[(0.0, 5.0), (5.0, 10.0)]),
        Row("short", bars=[(4.0, 4.03)]),
        Row("span", bars=[(0.0, 10.0)], kind="span"),
    ]
    drawn = draw_timeline(rows, 80)
    assert max(map(len, drawn)) == 80
    body = [line[13:] for line in drawn]
    assert (body[0][0], body[0][-1]) == ("▲", "▲")
    assert body[1].index("▒") == 33
    assert body[2].count("█") == 1
    assert body[3] == "├" + "─" * 65 + "┤"
    assert body[5].split() == ["0", "s", "5", "s", "10", "s"]
    assert "".join(draw_timeline(rows, 80, unicode=False)).isascii()


def test_moment_alone_is_drawn() -> None:
    assert (
        "▲" in draw_timeline([Row("question", [3.0], kind="point"), Row("span", bars=[(3.0, 3.0)], kind="span")], 80)[0]
    )


def test_pipe_gets_no_colours_and_whole_lines(small_sample: Path) -> None:
    record = next(trace_hf.Release.open(hostile(small_sample)).records("qa"))
    code = f"from trace_hf.cli.show import show; show(['{record.record_id}', {str(small_sample)!r}])"
    environment = {**os.environ, "FORCE_COLOR": "", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout
    assert LONG.encode() in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("no_color", [False, True])
def test_terminal_of_80_columns(small_sample: Path, no_color: bool) -> None:
    import pty

    record = max(trace_hf.Release.open(small_sample).records("proactive"), key=lambda one: len(one.windows))
    code = f"from trace_hf.cli.show import show; show(['{record.record_id}', {str(small_sample)!r}])"
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm-256color", "NO_COLOR": "1" if no_color else ""}
    reader, writer = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=writer, stderr=writer) as process:
        os.close(writer)
        seen = b""
        try:
            while part := os.read(reader, 65536):
                seen += part
        except OSError:  # the other end was closed
            pass
    assert process.returncode == 0, seen
    assert (b"\x1b[3" in seen) is not no_color
    import re

    plain = re.sub(r"\x1b\[[0-9;]*m", "", seen.decode()).splitlines()
    assert max(map(len, plain)) <= 80
    assert any("├" in line for line in plain)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_the_program(shell: str) -> None:
    result = CliRunner().invoke(completion, [shell])
    if shell == "bash" and "version" in result.stderr:
        pytest.skip("no bash of version 4.4 and above")
    assert result.exit_code == 0
    assert "_TRACE_HF_COMPLETE" in result.output
    assert "trace-hf" in result.output


def test_record_ids_are_completed(small_sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trace_hf.cli.show import _complete_ids

    monkeypatch.setenv("TRACE_RELEASE", str(small_sample))
    from trace_hf.cli.show import show

    context = show.make_context("show", [], resilient_parsing=True)
    items = _complete_ids(context, show.params[0], "streambench_proactive:")
    assert len(items) > 3
    monkeypatch.setenv("TRACE_RELEASE", str(small_sample / "nothing"))
    assert _complete_ids(context, show.params[0], "") == []
