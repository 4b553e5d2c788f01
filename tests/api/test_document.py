"""The served document is true: requests made up from it are answered as it says, and never with an error of ours."""

import sys
from pathlib import Path

from support.api import Api
from support.processes import Processes

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
SEED = 20260501


async def test_requests_made_up_from_the_document_are_answered_as_it_says(
    api: Api, processes: Processes, tmp_path: Path
):
    await api.make(name="seen-by-the-fuzzer")
    run = await processes.start(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            f"{api.url}/openapi.json",
            f"--header=Authorization: Bearer {api.caller.key}",
            f"--checks={CHECKS}",
            "--phases=examples,coverage,fuzzing",
            "--max-examples=5",
            f"--seed={SEED}",
            "--generation-database=none",
            "--continue-on-failure",
            "--exclude-path=/v1/schedules/bulk",
            "--exclude-path=/metrics",
            "--no-color",
        ],
        cwd=tmp_path,
    )
    assert await run.ends(within=110) == 0, run.text[-20_000:]


async def test_the_document_and_its_page_need_nothing_from_elsewhere(api: Api):
    document = (await api.get("/openapi.json", key="")).json
    assert document["openapi"].startswith("3.1")
    assert document["components"]["securitySchemes"] == {"key": {"type": "http", "scheme": "bearer"}}
    page = (await api.get("/docs", key="")).body.decode()
    assert "POST /v1/schedules" in page
    assert "http://" not in page
    assert "https://" not in page.replace("https://example.com", "")
    assert "<script" not in page
    assert (await api.get("/static/rota.css", key="")).status == 200


async def test_every_operation_says_what_it_does_and_how_it_fails(api: Api):
    document = (await api.get("/openapi.json", key="")).json
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            assert operation.get("description"), where
            assert "application/problem+json" in operation["responses"]["default"]["content"], where
            assert "422" not in operation["responses"], where
