"""The page about the schedule document says what is so."""

import json
import re
from pathlib import Path

import pytest

from rota.catalog.definition import Definition

PAGE = (Path(__file__).parents[3] / "docs" / "schedule.md").read_text(encoding="utf-8")
EXAMPLES = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]


@pytest.mark.parametrize("example", EXAMPLES, ids=[example["name"] for example in EXAMPLES])
def test_an_example_of_the_page_is_a_definition(example: dict[str, object]):
    read = Definition.parse(example)
    assert Definition.parse(read.document(masked=False)) == read


def test_the_table_of_the_page_has_every_member_with_its_default():
    rows = re.findall(r"^\| (`.+?`) \| (.+?) \| .+? \|$", PAGE, re.MULTILINE)
    said = {name: default.strip("`") for names, default in rows for name in re.findall(r"`(\w+)`", names)}
    shown = Definition.parse({"name": "x", "timing": {"cron": "0 9 * * *"}, "target": {"handler": {"name": "h"}}})
    defaults = {
        name: value if isinstance(value, str) and value else json.dumps(value)
        for name, value in shown.document().items()
        if name not in {"name", "timing", "target"}
    }
    assert {name: default for name, default in said.items() if default != "needed"} == defaults | {"description": '""'}
    assert {name for name, default in said.items() if default == "needed"} == {"name", "timing", "target"}
