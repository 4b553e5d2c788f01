#!/bin/sh
# Make the environments of the compared systems under .venvs, beside this file: one for those that can share one, one
# each for those that cannot. Nothing of it belongs to the product. Needs Python 3.12 or newer; override with PYTHON=...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${PYTHON:-}" ]; then
    for candidate in python3.12 python3.13 python3 python3.14; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
            PYTHON=$candidate
            break
        fi
    done
fi
[ -n "${PYTHON:-}" ] || { echo "the compared systems need Python 3.12 or newer (PYTHON=/path/to/python3 sh $0)" >&2; exit 1; }

for name in postgres celery taskiq; do
    venv=$here/.venvs/$name
    wanted=$here/requirements-$name.txt
    if [ -e "$venv/.ready" ] && [ ! "$wanted" -nt "$venv/.ready" ]; then
        continue
    fi
    echo "installing into $venv"
    "$PYTHON" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
        --only-binary psycopg-binary,psycopg2-binary,asyncpg,uvloop,hiredis -r "$wanted"
    touch "$venv/.ready"
done
command -v redis-server >/dev/null || echo "redis-server is not installed: Celery and taskiq will be left out (apt-get install redis-server)" >&2
