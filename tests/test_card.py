"""The card says what the release holds, in words that nobody's text can bend."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import rewrite_manifest
from helpers import edit_manifest
from huggingface_hub import DatasetCard
from huggingface_hub.repocard_data import DatasetCardData

from trace_hf.errors import DataTermsError
from trace_hf.hub.card import code, fenced, md, one_line, safe_url
from trace_hf.hub.export import export, refresh_card
from trace_hf.hub.terms import built_in_terms, load_terms
from trace_hf.schema import CONFIGS, Field, fields_of

HOSTILE = (
    "---\nlicense: mit\n---\n# Title\n<script>alert(1)</script> [click](javascript:alert(1)) ![x](http://x/y.png)\n"
    "| a | b |\n``` {{ 7 * 7 }} {% raw %} \\ *b* _i_ ~~s~~ &lt; $x$ \u202egnp.exe \u200b \x1b[31m \u2028"
)


def card(folder: Path) -> str:
    return (folder / "README.md").read_bytes().decode("utf-8")


def body(folder: Path) -> str:
    return card(folder).split("---\n", 2)[2]


@pytest.fixture
def exported(small_sample: Path, tmp_path: Path) -> Path:
    return export(small_sample, tmp_path / "trace").path


# --- metadata -----------------------------------------------------------------------------------------------------


def test_the_card_survives_being_parsed_and_saved(exported: Path, tmp_path: Path) -> None:
    loaded = DatasetCard.load(exported / "README.md")
    assert isinstance(loaded.data, DatasetCardData)
    loaded.save(tmp_path / "saved.md")
    before, after = (
        card(exported).split("---\n", 2),
        (tmp_path / "saved.md").read_bytes().decode("utf-8").split("---\n", 2),
    )
    assert yaml.safe_load(after[1]) == yaml.safe_load(before[1])
    assert after[2] == before[2]
    DatasetCard(card(exported), ignore_metadata_errors=False)


def test_a_current_hub_client_saves_it_byte_for_byte(exported: Path, tmp_path: Path) -> None:
    from huggingface_hub import __version__

    if int(__version__.split(".")[0]) < 1:
        pytest.skip("older clients sort the keys anew")
    DatasetCard.load(exported / "README.md").save(tmp_path / "saved.md")
    assert (tmp_path / "saved.md").read_bytes() == (exported / "README.md").read_bytes()


def test_the_metadata_is_what_the_hub_asks_for(exported: Path) -> None:
    data = DatasetCard.load(exported / "README.md").data.to_dict()
    assert data["license"] == "other"
    assert re.fullmatch(r"[a-z0-9.-]+", data["license_name"])
    assert (exported / data["license_link"]).is_file()
    assert set(data["task_categories"]) == {"visual-question-answering", "video-text-to-text"}
    assert data["size_categories"] == ["n<1K"]
    assert data["language"] == ["en", "zh"]
    assert "synthetic" in data["tags"]
    assert "non-commercial" in data["extra_gated_prompt"]
    assert set(data["extra_gated_fields"].values()) <= {"text", "checkbox", "date_picker", "country"}
    assert any("non-commercial" in name for name in data["extra_gated_fields"])
    assert [entry["config_name"] for entry in data["configs"]] == list(CONFIGS)
    for entry in data["configs"]:
        (files,) = entry["data_files"]
        assert files["split"] == "test"
        assert (exported / files["path"]).is_file()


def test_the_yaml_needs_no_anchors(exported: Path) -> None:
    assert not re.search(r"[:-] [&*]id\d", card(exported).split("---\n", 2)[1])


# --- what it says -------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_rows(sample_release: Path, tmp_path: Path) -> None:
    text = body(export(sample_release, tmp_path / "trace").path)
    summary = json.loads((sample_release / "review_summary.json").read_text())
    human, machine = (summary["validation_tiers"][tier] for tier in ("human_reviewed", "machine_screened"))
    assert f"Of 1,248 records (QA and Proactive together), {human} were" in " ".join(text.split())
    assert f"and {machine} were only screened" in " ".join(text.split())
    standard = next(line for line in text.splitlines() if line.startswith("| `proactive_standard` | 407 | 178"))
    assert standard.split("|")[4:6] == [" 1,270 ", " 0 "]
    burst = next(line for line in text.splitlines() if re.match(r"\| `proactive_high_frequency` \| 8 \| \d+ \|", line))
    assert burst.split("|")[4:6] == [" 68 ", " 25 "]
    assert "say otherwise" not in text


def test_a_summary_that_disagrees_with_the_rows_is_said(small_sample: Path, tmp_path: Path) -> None:
    path = small_sample / "review_summary.json"
    value = json.loads(path.read_text())
    value["validation_tiers"]["human_reviewed"] += 1
    path.write_text(json.dumps(value))
    rewrite_manifest(small_sample)
    text = body(export(small_sample, tmp_path / "trace").path)
    assert "say otherwise" in text
    stated = value["validation_tiers"]["human_reviewed"]
    assert f"states {stated} human\\_reviewed records, the rows are {stated - 1}" in text


def test_every_field_stands_in_a_table_with_its_description(exported: Path) -> None:
    text = body(exported)

    def check(fields: tuple[Field, ...], prefix: str = "") -> None:
        for field in fields:
            item = field.item if field.kind == "list" else field
            path = f"{prefix}{field.name}{'[]' if field.kind == 'list' else ''}"
            assert f"| `{path}` | " in text
            assert field.description.replace("|", "\\|") in text
            check(item.children, f"{path}.")

    for spec in CONFIGS.values():
        check(fields_of(spec.record))


def test_it_says_how_to_choose_load_attest_and_cite(exported: Path) -> None:
    text = " ".join(body(exported).split())
    for part in (
        "It is **not** the standard population",
        "are for setting a pipeline up",
        "never averaged in",
        'load_dataset("path/to/this/folder", "proactive_standard", split="test")',
        "trace-hf attest",
        "trace-hf videos check",
        "lin2024streamingbench",
        "li2025ovobench",
        "@misc{trace,",
        "invented data: no number made on it is a TRACE result",
        "consistency, not origin",
    ):
        assert part in text
    assert "{{" not in text
    assert "{%" not in text


def test_the_data_terms_name_every_source_and_its_reasons(exported: Path) -> None:
    text = (exported / "DATA_TERMS.md").read_text(encoding="utf-8")
    for source in built_in_terms().sources:
        assert source.title in text
        assert all(str(md(reason)) in text for reason in source.reasons)
    assert "keep every copy of this folder private" in text


def test_a_release_of_permitted_sources_only_is_not_called_private(small_sample: Path, tmp_path: Path) -> None:
    for path in small_sample.glob("*.jsonl"):
        path.write_text(
            path.read_text(encoding="utf-8").replace('"dataset":"ovo_bench"', '"dataset":"streambench"'),
            encoding="utf-8",
        )
    rewrite_manifest(small_sample, status="public")
    folder = export(small_sample, tmp_path / "trace").path
    assert "OVO-Bench" not in (folder / "DATA_TERMS.md").read_text(encoding="utf-8")
    assert "The sources permit publication, for non-commercial use" in (folder / "DATA_TERMS.md").read_text(
        encoding="utf-8"
    )


def test_a_source_without_terms_is_open(small_sample: Path, tmp_path: Path) -> None:
    path = small_sample / "qa.jsonl"
    path.write_text(
        path.read_text(encoding="utf-8").replace('"dataset":"ovo_bench"', '"dataset":"new|bench"', 1), encoding="utf-8"
    )
    rewrite_manifest(small_sample)
    text = (export(small_sample, tmp_path / "trace").path / "DATA_TERMS.md").read_text(encoding="utf-8")
    assert "The table of terms does not name this source." in text
    assert "new\\|bench" in text


# --- somebody else's text -----------------------------------------------------------------------------------------


def test_hostile_text_in_a_manifest_changes_nothing_but_itself(small_sample: Path, tmp_path: Path) -> None:
    plain_card = card(export(small_sample, tmp_path / "plain").path)

    def spoil(manifest: dict[str, Any]) -> None:
        manifest["limitations"] = [HOSTILE]
        manifest["video_root_notes"] = HOSTILE
        manifest["release_id"] = "v9`| [x](y) <b> --- license: mit"
        manifest["status"] = "`# status"

    edit_manifest(small_sample, spoil)
    folder = export(small_sample, tmp_path / "hostile").path
    text = card(folder)
    data = DatasetCard(text).data.to_dict()
    expected = DatasetCard(plain_card).data.to_dict()
    assert {k: v for k, v in data.items() if k not in ("pretty_name", "tags")} == {
        k: v for k, v in expected.items() if k not in ("pretty_name", "tags")
    }
    assert data["pretty_name"] == "TRACE v9`| [x](y) <b> --- license: mit"
    markdown = text.split("---\n", 2)[2]
    assert "<script" not in markdown
    assert "<b>" not in markdown
    assert "](javascript" not in markdown.replace("\\]", "")
    assert "![x]" not in markdown
    assert "49" not in next(line for line in markdown.splitlines() if "alert" in line)
    assert not re.search("[\u200b\u2028\u202e\x1b]", markdown)
    headings = [line for line in markdown.splitlines() if line.startswith("#")]
    assert [h for h in headings if not h.startswith("# TRACE")] == [
        h for h in plain_card.split("---\n", 2)[2].splitlines() if h.startswith("#") and not h.startswith("# TRACE")
    ]
    assert sum(line.startswith("---") for line in markdown.splitlines()) == 0
    refresh_card(folder)
    assert card(folder) == text


def test_hostile_text_is_shown_as_it_is() -> None:
    markdown_it = pytest.importorskip("markdown_it", reason="markdown-it-py is not installed")
    parser = markdown_it.MarkdownIt("gfm-like", {"linkify": False, "html": True})
    for text in (HOSTILE, "1. one", "- x", "+ x", "=====", "# h", "> q", "`a`", "a|b", "&amp;", "2024. A year", "***"):
        tokens = parser.parseInline(str(md(text)))[0].children
        assert {token.type for token in tokens} <= {"text", "text_special"}
        assert "".join(token.content for token in tokens) == one_line(text)
        blocks = [token.type for token in parser.parse(str(md(text)))]
        assert blocks == ["paragraph_open", "inline", "paragraph_close"]


def test_code_and_fences_cannot_be_left() -> None:
    assert code("qa.jsonl") == "`qa.jsonl`"
    assert code("a`b") == "a\\`b"
    assert fenced(["```", "x"]).startswith("````\n")
    assert safe_url("https://a.org/b") == "https://a.org/b"
    assert "](" not in safe_url("https://a.org/](javascript:x)").replace("\\]", "")


# --- terms --------------------------------------------------------------------------------------------------------


def test_the_table_of_terms_is_a_file_that_can_be_replaced(tmp_path: Path) -> None:
    terms, digest = load_terms()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", terms.date)
    assert re.fullmatch("[0-9a-f]{64}", digest)
    assert terms.of("streambench").public
    assert not terms.of("ovo_bench").public
    assert not terms.of("unheard_of").public
    (tmp_path / "terms.json").write_text("{}")
    with pytest.raises(DataTermsError, match="missing"):
        load_terms(tmp_path / "terms.json")
    with pytest.raises(DataTermsError, match="cannot be read"):
        load_terms(tmp_path / "absent.json")
