"""Write requirements.lock and requirements-dev.lock from pyproject.toml: name, version and hashes, no addresses.

Versions that are already locked stay unless `--upgrade` is given. The files install with plain pip
(`pip install --require-hashes -r requirements.lock`) on Python 3.11 and newer, on every platform.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# {what}. Made by `make lock` from pyproject.toml; do not edit.\n"
LOCKS = {
    "requirements.lock": ("What rota needs to run", []),
    "requirements-dev.lock": ("What rota needs to run, to be tested and to be changed", ["--extra", "dev"]),
}
ADDRESS = re.compile(r"https?://|^--|file:|@\s", re.MULTILINE)


def write_lock(name: str, what: str, extras: list[str], options: list[str]) -> None:
    """Compile one lock file in place, so that unchanged pins are kept."""
    path = ROOT / name
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "pyproject.toml",
        "--universal",
        "--python-version",
        "3.11",
    ]
    command += ["--generate-hashes", "--no-header", "--no-emit-index-url", "--no-annotate", "--quiet"]
    subprocess.run(
        [*command, *extras, *options, "--output-file", name], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
    )
    body = path.read_text()
    if found := ADDRESS.search(body):
        near = body[found.start() : found.start() + 60]
        sys.exit(f"{name} holds an address or an option near {near!r}: not written for others")
    path.write_text(HEADER.format(what=what) + body)


def main() -> None:
    """Write both files; arguments are passed on to the resolver (`--upgrade`, `--upgrade-package NAME`)."""
    for name, (what, extras) in LOCKS.items():
        write_lock(name, what, extras, sys.argv[1:])
        print(f"{name}: {(ROOT / name).read_text().count('==')} packages")


if __name__ == "__main__":
    main()
