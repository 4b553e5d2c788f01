"""Install requirements-dev.lock and rota itself (editable) into the environment of the Python that runs this.

pip installs uv, at its locked version and hash, and uv installs the rest in a third of the time pip takes. Where uv
cannot reach what pip is configured to reach (a mirror, a certificate, a proxy), pip does all of it.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-dev.lock"
PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
UV = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable, "--compile-bytecode"]
PATIENCE = {"UV_HTTP_TIMEOUT": "20", "UV_HTTP_RETRIES": "1"}  # pip is there when uv has no luck


def locked(name: str) -> str:
    """The lines of one package in the lock file, hashes included."""
    found = re.search(rf"^{name}==.*\n(?:    --hash=.*\n)+", LOCK.read_text(), re.MULTILINE)
    if found is None:
        sys.exit(f"{LOCK.name} does not hold {name}: run `make lock`")
    return found.group(0)


def install_with_uv() -> bool:
    """Whether uv could install everything."""
    with tempfile.TemporaryDirectory() as folder:
        pin = Path(folder) / "uv.txt"
        pin.write_text(locked("uv"))
        subprocess.run([*PIP, "--require-hashes", "-r", str(pin)], check=True)
    done = subprocess.run([*UV, "--require-hashes", "-r", str(LOCK)], env={**PATIENCE, **os.environ}, check=False)
    return done.returncode == 0


def main() -> None:
    """Install; an exit code other than 0 means that pip could not either."""
    try:
        if not install_with_uv():
            print("uv could not install the packages; pip tries now", file=sys.stderr)
            subprocess.run([*PIP, "--require-hashes", "-r", str(LOCK)], check=True)
        subprocess.run([*PIP, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], check=True)
    except subprocess.CalledProcessError as error:
        sys.exit(f"could not install the packages of {LOCK.name}: {' '.join(error.cmd[2:4])} failed, see above")


if __name__ == "__main__":
    main()
