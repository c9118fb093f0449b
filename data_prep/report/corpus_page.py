"""Render the corpus report as one HTML file.

The page loads no other files, and its charts are inline SVG. It supports light and dark mode, any screen width, and
printing. One small script lets the reader move the limits. The page's content security policy contains the script's
hash, so no other script can run.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from bloomery.base.units import format_bytes
from data_prep.report.sections.bad_rows import bad_rows
from data_prep.report.sections.duplicates import duplicates
from data_prep.report.sections.funnels import languages, legend, sources, waterfall
from data_prep.report.sections.labels import labels
from data_prep.report.sections.language_map import language_map
from data_prep.report.sections.limits import limits, page_data
from data_prep.report.sections.mixture import mixture
from data_prep.report.sections.personal_data import personal_data
from data_prep.report.sections.repeated_lines import repeated_lines
from data_prep.report.sections.rule_list import rule_list
from data_prep.report.wording import count, documents, percent


def render(report: dict[str, Any], origin: str = "") -> str:
    """Return the HTML page of a complete report, which `cli.py` assembles. `origin` names the inputs of the report."""
    script = _file("page.js")
    return Template(_file("page.html")).substitute(
        style=_file("page.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii"),
        data=page_data(report),
        headline=_headline(report["totals"]),
        lead=escape(_lead(report)),
        origin=escape(origin),
        cards=_cards(report),
        waterfall=waterfall(report["totals"]),
        language_map=language_map(report),
        legend=legend(),
        languages=languages(report),
        sources=sources(report),
        rules=rule_list(report),
        limits=limits(report),
        options=_options(report),
        repeated_lines=repeated_lines(report),
        duplicates=duplicates(report["duplicates"]["clusters"]),
        labels=labels(report),
        personal_data=personal_data(report),
        mixture=mixture(report["mixture"], report["languages"]),
        bad_rows=bad_rows(report["bad_rows"]),
    )


def _file(name: str) -> str:
    return files("data_prep.report").joinpath(name).read_text(encoding="utf-8")


def _headline(totals: dict[str, Any]) -> str:
    return f"{count(totals['documents_out'])} of {count(totals['documents_in'])} documents were kept"


def _lead(report: dict[str, Any]) -> str:
    totals = report["totals"]
    share = totals["bytes_out"] / totals["bytes_in"] if totals["bytes_in"] else 0.0
    sentence = (
        f"The input had {format_bytes(totals['bytes_in'])} of text in {len(report['languages'])} languages. "
        f"{format_bytes(totals['bytes_out'])} ({percent(share)}) of the text was kept."
    )
    if totals["trusted_disagreements"]:
        sentence += (
            f" The kept text includes {documents(totals['trusted_disagreements'])} from trusted sources although the "
            "detected language differs from the label."
        )
    return sentence


def _cards(report: dict[str, Any]) -> str:
    totals = report["totals"]
    stages = totals["removed_by_stage"]
    cards = [
        (count(len(report["languages"])), "languages"),
        (count(len(report["sources"])), "sources"),
        (count(sum(stages.values()) - stages["duplicates"]), "documents removed by rules"),
        (count(stages["duplicates"]), "documents removed as duplicates"),
        (count(sum(totals["redactions"].values())), "personal details replaced"),
        (count(totals["bad_rows"]), "unreadable rows"),
    ]
    return "".join(f"<div class='card'><b>{number}</b><span>{words}</span></div>" for number, words in cards)


def _options(report: dict[str, Any]) -> str:
    named = sorted((entry["name"], code) for code, entry in report["languages"].items())
    return "".join(f"<option value='{escape(code)}'>{escape(name)}</option>" for name, code in named)
