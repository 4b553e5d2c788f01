"""Preview over HTTP: the same answers as planning, with the marks of clock changes."""

from support.api import Api


async def test_a_preview_marks_what_a_clock_change_does(api: Api):
    answer = await api.post(
        "/v1/preview",
        {
            "timing": {"cron": "30 2 * * *", "time_zone": "America/New_York"},
            "after": "2026-03-07T00:00:00Z",
            "count": 3,
        },
    )
    assert answer.status == 200, answer.body
    fires = answer.json["fires"]
    assert [fire["at"] for fire in fires if fire["fires"]][:2] == ["2026-03-07T07:30:00Z", "2026-03-09T06:30:00Z"]
    assert any("gap_skipped" in fire["marks"] for fire in fires)
    assert "New" in answer.json["description"]


async def test_a_preview_ends_where_the_schedule_would(api: Api):
    body = {
        "timing": {"every": "1h", "anchor": "2026-01-01T00:00:00Z"},
        "after": "2026-01-01T00:00:00Z",
        "starts_at": "2026-01-01T02:00:00Z",
        "ends_at": "2026-01-01T04:00:00Z",
        "count": 10,
    }
    fires = (await api.post("/v1/preview", body)).json["fires"]
    assert [fire["at"] for fire in fires if fire["fires"]] == [
        "2026-01-01T02:00:00Z",
        "2026-01-01T03:00:00Z",
        "2026-01-01T04:00:00Z",
    ]


async def test_a_timing_that_is_wrong_names_its_field(api: Api):
    answer = await api.post("/v1/preview", {"timing": {"cron": "0 9 31 2 *"}})
    assert (answer.status, answer.fields) == (422, ["timing.cron"])
    answer = await api.post("/v1/preview", {"timing": {"cron": "0 9 * * *", "time_zone": "Europe/Pariss"}})
    assert (answer.status, answer.fields) == (422, ["timing.time_zone"])
    assert "Europe/Paris" in str(answer.json)


async def test_a_preview_leaves_out_the_days_of_a_calendar(api: Api):
    await api.call("PUT", "/v1/calendars/holidays", {"days": ["2030-01-02"]})
    body = {"timing": {"cron": "0 9 * * *"}, "after": "2030-01-01T00:00:00Z", "count": 3, "calendar": "holidays"}
    fires = (await api.post("/v1/preview", body)).json["fires"]
    assert [fire["at"] for fire in fires if fire["fires"]][:2] == ["2030-01-01T09:00:00Z", "2030-01-03T09:00:00Z"]
    assert (await api.post("/v1/preview", {**body, "calendar": "unknown"})).status in (404, 422)
