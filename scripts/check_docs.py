"""Check the documentation: every relative link and every `path/to/file` link target exists.

Examples are files under examples/ that the test suite runs; this script only guards the references between pages.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(#[^)\s]*)?\)")


def broken_links(page: Path) -> Iterator[str]:
    """Relative links of one page whose target is not in the repository."""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        for match in LINK.finditer(line):
            target = match.group(1)
            if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)}:{number}: {target} does not exist"


def main() -> None:
    """Print each broken link; exit 1 when there is any."""
    pages = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
    found = [problem for page in pages for problem in broken_links(page)]
    print("\n".join(found) or f"docs: {len(pages)} pages, no broken link")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
