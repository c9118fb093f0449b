"""Render the numbers of replaced personal details, per language and kind."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from data_prep.report.wording import count, documents, percent

KINDS = {
    "email": "e-mail",
    "ip": "IP address",
    "phone": "telephone",
    "iban": "IBAN",
    "card": "card number",
    "key": "key or token",
    "national_id": "national id",
    "handle": "@name",
}


def personal_data(report: dict[str, Any]) -> str:
    """Return a table of languages and kinds. Cells with higher numbers are darker."""
    totals = report["totals"]
    kinds = list(totals["redactions"])
    if not kinds:
        return "<p class='note'>No personal data was found.</p>"
    rows = sorted(
        ((code, entry) for code, entry in report["languages"].items() if entry["redactions"]),
        key=lambda item: (-sum(item[1]["redactions"].values()), item[0]),
    )
    most = max(number for _, entry in rows for number in entry["redactions"].values())
    head = "".join(f"<th class='n'>{escape(KINDS.get(kind, kind))}</th>" for kind in kinds)
    body = "".join(
        f"<tr><th scope='row'>{escape(entry['name'])} <code>{escape(code)}</code></th>"
        f"{''.join(_cell(entry['redactions'].get(kind, 0), most) for kind in kinds)}"
        f"<td class='n'>{count(entry['redacted_documents'])}</td>"
        f"<td class='n'>{percent(entry['redacted_documents'] / entry['documents_out'])}</td></tr>"
        for code, entry in rows
    )
    foot = "".join(f"<td class='n'>{count(number)}</td>" for number in totals["redactions"].values())
    return (
        "<p class='note'>Placeholders replaced personal details in the kept documents: "
        f"{count(sum(totals['redactions'].values()))} details in {documents(totals['redacted_documents'])}.</p>"
        "<div class='scroll' tabindex='0'><table class='heat'>"
        f"<thead><tr><th>Language</th>{head}<th class='n'>documents</th><th class='n'>share of all</th></tr></thead>"
        f"<tbody>{body}</tbody><tfoot><tr><th scope='row'>all</th>{foot}"
        f"<td class='n'>{count(totals['redacted_documents'])}</td>"
        f"<td class='n'>{percent(totals['redacted_documents'] / max(totals['documents_out'], 1))}</td></tr></tfoot>"
        "</table></div>"
    )


def _cell(number: int, most: int) -> str:
    heat = math.log1p(number) / math.log1p(most)
    return f"<td class='n' style='--heat:{heat:.2f}'>{count(number) if number else '·'}</td>"
