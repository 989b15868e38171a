"""Every skeleton is EPL that can be deployed, laid out as the formatter does it."""

from __future__ import annotations

from cepbook.lang.registry.templates import STATEMENT_TEMPLATES
from cepbook.lang.syntax.formatter import format_epl
from cepbook.session import Workbench


def test_all_of_them_can_be_deployed_one_after_the_other() -> None:
    cep = Workbench()
    cep.run("create schema Other(key string, value double)", cell="other")
    for label, text in STATEMENT_TEMPLATES.items():
        assert cep.problems(text, cell=label) == (), label
        cep.run(text, cell=label)
    assert {"high", "missing", "merged", "per_key"} <= set(cep.runtime.statements)
    cep.send("Event", key="A", value=11.0)
    assert [row["key"] for row in cep.to_frame("means").to_dict("records")] == ["A"]


def test_they_begin_as_their_labels_say_and_end() -> None:
    for label, text in STATEMENT_TEMPLATES.items():
        first = label.partition(":")[0]
        assert first in text and text.endswith(";"), label
        assert len(label) < 60 and format_epl(text).split() == text.split(), label
