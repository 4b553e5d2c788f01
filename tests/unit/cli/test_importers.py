"""Other schedulers' definitions, read into ours: what is carried over, and what is said about the rest."""

import json

import pytest

from rota.catalog.definition import Definition
from rota.cli.importers import Imported, ImportOptions, ImportRefused, celery, crontab, eventbridge, kubernetes, sidekiq

OPTIONS = ImportOptions()


def accepted(found: Imported) -> list[dict[str, object]]:
    """The documents, each of which must be a valid definition."""
    for document in found.documents:
        Definition.parse({name: value for name, value in document.items() if name != "state"})
    return found.documents


def test_a_crontab_keeps_zone_environment_and_standard_input() -> None:
    found = crontab.read(
        "# backups\nMAILTO=ops@example.com\nCRON_TZ=Europe/Berlin\n"
        "30 2 * * 1-5 /usr/bin/backup --all%first%second\\%\n@daily /bin/rotate\n@reboot /bin/hello\n0 9 * *\n",
        OPTIONS,
    )
    first, second = accepted(found)
    assert first["timing"] == {
        "cron": "30 2 * * 1-5",
        "time_zone": "Europe/Berlin",
        "dst": "cronie",
        "dialect": "unix5",
    }
    assert first["payload"] == {
        "command": "/usr/bin/backup --all",
        "stdin": "first\nsecond%",
        "environment": {"MAILTO": "ops@example.com"},
    }
    assert second["timing"]["cron"] == "@daily"  # type: ignore[index]
    assert [note.partition(":")[0] for note in found.notes] == ["line 6", "line 7"]


def test_a_system_crontab_has_a_user_column() -> None:
    (document,) = accepted(
        crontab.read("5 4 * * * root run-parts /etc/cron.daily", ImportOptions(has_user_column=True))
    )
    assert document["payload"] == {"command": "run-parts /etc/cron.daily", "user": "root"}


def test_a_cronjob_keeps_zone_deadline_concurrency_and_containers() -> None:
    found = kubernetes.read(
        """
apiVersion: v1
kind: List
items:
- kind: CronJob
  metadata: {name: report, namespace: billing, labels: {team: money}}
  spec:
    schedule: "0 9 * * 1-5"
    timeZone: America/New_York
    concurrencyPolicy: Forbid
    startingDeadlineSeconds: 200
    suspend: true
    jobTemplate:
      spec:
        backoffLimit: 2
        template: {spec: {containers: [{name: main, image: busybox, command: [date]}]}}
- kind: Service
  metadata: {name: web}
""",
        OPTIONS,
    )
    (document,) = accepted(found)
    assert document["timing"] == {"cron": "0 9 * * 1-5", "time_zone": "America/New_York", "dst": "kubernetes"}
    assert document["overlap"] == "skip_if_running"
    assert document["misfire"] == {"policy": "fire_once", "max_lateness": "200s"}
    assert document["retry"] == {"max_attempts": 3}
    assert document["state"] == "paused"
    assert len(found.notes) == 2


def test_sidekiq_schedules_keep_zones_seconds_intervals_and_arguments() -> None:
    found = sidekiq.read(
        """
:schedule:
  nightly: {cron: "0 2 * * * Asia/Tokyo", class: NightlyJob, args: [1, two], queue: low}
  often: {every: ["30s", {first_in: 0s}], class: OftenJob}
  precise: {cron: "15 0 2 * * *", class: PreciseJob, status: disabled}
  broken: {class: NoTiming}
""",
        OPTIONS,
    )
    nightly, often, precise = accepted(found)
    assert nightly["timing"] == {"cron": "0 2 * * *", "time_zone": "Asia/Tokyo", "dialect": "unix5"}
    assert nightly["target"] == {"handler": {"name": "NightlyJob", "queue": "low"}}
    assert nightly["payload"] == {"args": [1, "two"]}
    assert often["timing"] == {"every": "30s"}
    assert precise["timing"]["dialect"] == "seconds6"  # type: ignore[index]
    assert any("broken: left out" in note for note in found.notes)
    with pytest.raises(ImportRefused, match="ERB"):
        sidekiq.read("a: {cron: <%= x %>}", OPTIONS)


def test_celery_settings_are_read_without_running_them() -> None:
    found = celery.read(
        """
import os
os.abort()
app.conf.beat_schedule = {
    "add every 30": {"task": "tasks.add", "schedule": 30.0, "args": (16, 16)},
    "monday": {"task": "tasks.week", "schedule": crontab(hour=7, minute=30, day_of_week=1), "options": {"queue": "q"}},
    "delta": {"task": "tasks.d", "schedule": timedelta(minutes=5), "kwargs": {"a": 1}},
    "sun": {"task": "tasks.sun", "schedule": solar("sunset", 1, 2)},
}
""",
        OPTIONS,
    )
    every, monday, delta = accepted(found)
    assert every["timing"] == {"every": "30s"}
    assert every["payload"] == {"args": [16, 16], "kwargs": {}}
    assert monday["timing"] == {"cron": "30 7 * * 1", "time_zone": "UTC", "dialect": "unix5"}
    assert monday["target"] == {"handler": {"name": "tasks.week", "queue": "q"}}
    assert delta["timing"] == {"every": "300s"}
    assert [note for note in found.notes if note.startswith("sun")]


def test_eventbridge_schedules_keep_window_dates_zone_and_retry() -> None:
    exported = [
        {
            "Name": "daily",
            "GroupName": "reports",
            "ScheduleExpression": "cron(0 9 ? * MON-FRI *)",
            "ScheduleExpressionTimezone": "Europe/Paris",
            "StartDate": "2026-01-01T00:00:00Z",
            "FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15},
            "Target": {
                "Arn": "arn:aws:lambda:eu-west-1:1:function:report",
                "Input": '{"a": 1}',
                "RetryPolicy": {"MaximumRetryAttempts": 2, "MaximumEventAgeInSeconds": 3600},
            },
        },
        {"Name": "often", "ScheduleExpression": "rate(5 minutes)", "Target": {}},
        {"Name": "once", "ScheduleExpression": "at(2030-01-01T09:00:00)", "State": "DISABLED", "Target": {}},
    ]
    daily, often, once = accepted(eventbridge.read(json.dumps({"Schedules": exported}), OPTIONS))
    assert daily["window"] == "15m"
    assert daily["group"] == "reports"
    assert daily["payload"] == {"a": 1}
    assert daily["target"] == {"handler": {"name": "report", "queue": "default"}}
    assert daily["retry"] == {"max_attempts": 3}
    assert often["timing"] == {"every": "5m"}
    assert (once["timing"], once["state"]) == ({"at": "2030-01-01T09:00:00", "time_zone": "UTC"}, "paused")


def test_names_that_are_used_twice_are_told_apart_and_noted() -> None:
    found = crontab.read("0 1 * * * /bin/a\n0 2 * * * /bin/a\n", OPTIONS)
    assert [document["name"] for document in accepted(found)] == ["bin-a", "bin-a-2"]
    assert len(found.notes) == 1


def test_a_url_for_all_replaces_the_handlers() -> None:
    (document,) = accepted(crontab.read("0 1 * * * /bin/a", ImportOptions(url="https://example.com/run")))
    assert document["target"] == {"http": {"url": "https://example.com/run", "method": "POST"}}


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (kubernetes.read, "a: [b"),
        (sidekiq.read, "- a"),
        (celery.read, "x = 1"),
        (eventbridge.read, "{"),
        (eventbridge.read, "{}"),
    ],
)
def test_files_of_another_kind_are_refused_as_a_whole(read: object, text: str) -> None:
    with pytest.raises(ImportRefused):
        read(text, OPTIONS)  # type: ignore[operator]
