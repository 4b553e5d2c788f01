"""Kubernetes CronJob manifests (batch/v1), one or many documents, lists included."""

from collections.abc import Iterator, Mapping

import yaml

from rota.cli.importers.imported import Document, Imported, ImportOptions, ImportRefused, target

_OVERLAP = {"Allow": "allow", "Forbid": "skip_if_running", "Replace": "cancel_running"}


def read(text: str, options: ImportOptions) -> Imported:
    """Read manifests; other kinds are noted and left out.

    The controller starts only the latest missed time (kubernetes.io, "CronJob limitations"), hence `fire_once`.
    """
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise ImportRefused(f"not YAML: {error}") from error
    found = Imported()
    for manifest in _flatten(documents):
        kind = manifest.get("kind")
        metadata = _mapping(manifest.get("metadata"))
        name = str(metadata.get("name", "cronjob"))
        if kind != "CronJob":
            found.note(name, f"left out: a {kind}, not a CronJob")
            continue
        _cronjob(name, metadata, _mapping(manifest.get("spec")), options, found)
    return found


def _cronjob(
    name: str, metadata: Mapping[str, object], spec: Mapping[str, object], options: ImportOptions, found: Imported
) -> None:
    expression = str(spec.get("schedule", ""))
    time_zone = str(spec.get("timeZone") or options.time_zone)
    if "TZ=" in expression:
        prefix, _, expression = expression.partition(" ")
        time_zone = prefix.partition("=")[2]
        found.note(name, "the zone was taken from the TZ= prefix, which Kubernetes does not support officially")
    misfire: Document = {"policy": "fire_once"}
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None:
        misfire["max_lateness"] = f"{deadline}s"
    document: Document = {
        "name": name,
        "timing": {"cron": expression, "time_zone": time_zone, "dst": "kubernetes"},
        "misfire": misfire,
        "overlap": _OVERLAP.get(str(spec.get("concurrencyPolicy", "Allow")), "allow"),
        "target": target(options, handler="run_container"),
        "payload": {"namespace": metadata.get("namespace", "default"), "containers": _containers(spec)},
    }
    labels = {str(key): str(value) for key, value in _mapping(metadata.get("labels")).items()}
    if labels:
        document["labels"] = labels
    backoff = _mapping(_mapping(spec.get("jobTemplate")).get("spec")).get("backoffLimit")
    if isinstance(backoff, int):
        document["retry"] = {"max_attempts": backoff + 1}
    if spec.get("suspend"):
        document["state"] = "paused"
        found.note(name, "it is suspended; it will be created paused")
    found.add(document)


def _containers(spec: Mapping[str, object]) -> list[Document]:
    pod = _mapping(_mapping(_mapping(spec.get("jobTemplate")).get("spec")).get("template"))
    containers = _mapping(pod.get("spec")).get("containers")
    if not isinstance(containers, list):
        return []
    kept = ("name", "image", "command", "args")
    return [{key: item[key] for key in kept if key in item} for item in containers if isinstance(item, dict)]


def _flatten(documents: list[object]) -> Iterator[Mapping[str, object]]:
    for document in documents:
        if not isinstance(document, dict):
            continue
        items = document.get("items")
        if isinstance(items, list):
            yield from _flatten(items)
        else:
            yield document


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
