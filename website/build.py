"""``make site``: builds build/site, which works from a file, without a server or a network.

The generator is Zensical. It reads a configuration in the form of MkDocs, written here, because the
navigation is derived. Its search runs in a worker, which browsers do not start from a file; it
would fetch a stand-in from elsewhere, so ours is put in its place (``vendor/``).
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from website.prepare import Navigation, prepare, write

ROOT = Path(__file__).parents[1]
VENDOR = Path(__file__).parent / "vendor"
WORKER_STANDIN = "assets/javascripts/iframe-worker.js"
FOREIGN_STANDIN = "https://unpkg.com/iframe-worker/shim"


PAGES, SITE = "site-pages", "site"


def configuration(nav: Navigation) -> dict[str, object]:
    schemes = (("default", "light", "slate"), ("slate", "dark", "default"))
    return {
        "site_name": "Penstock",
        "site_description": "A message broker: one durable journal behind every protocol",
        "docs_dir": PAGES,  # the generator takes relative paths only
        "site_dir": SITE,
        "use_directory_urls": False,
        "nav": nav,
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.indexes", "search.highlight", "content.code.copy"],
            "palette": [
                {
                    "media": f"(prefers-color-scheme: {preference})",
                    "scheme": scheme,
                    "toggle": {"icon": "lucide/sun-moon", "name": f"Use the {other} colours"},
                }
                for scheme, preference, other in schemes
            ],
        },
        "plugins": ["search", "offline"],
        "markdown_extensions": ["tables", "pymdownx.superfences", "pymdownx.highlight", "toc"],
    }


def keep_inside(out: Path) -> list[str]:
    """Let every page load the stand-in that is here, and return pages that load anything else."""
    shutil.copyfile(VENDOR / "iframe-worker.js", out / WORKER_STANDIN)
    foreign = []
    for page in sorted(out.rglob("*.html")):
        up = "../" * len(page.relative_to(out).parent.parts)
        html = page.read_text(encoding="utf-8").replace(FOREIGN_STANDIN, up + WORKER_STANDIN)
        page.write_text(html, encoding="utf-8")
        if any(f'{attribute}="http' in html for attribute in ("src", "action", "srcset")):
            foreign.append(str(page.relative_to(out)))
    return foreign


def build(generator: str, work: Path) -> Path:
    """Return the folder of the finished site."""
    out = work / SITE
    config = work / "site.yml"
    write(config, json.dumps(configuration(prepare(ROOT, work / PAGES)), indent=1))  # is YAML, too
    shutil.rmtree(out, ignore_errors=True)
    command = [generator, "build", "--clean", "--strict", "--config-file", str(config)]
    subprocess.run(command, cwd=work, check=True)  # noqa: S603 - of the Makefile
    foreign = keep_inside(out)
    if foreign:
        raise SystemExit(f"these pages load something from elsewhere: {', '.join(foreign)}")
    return out


if __name__ == "__main__":
    sys.stdout.write(f"open {build(sys.argv[1], ROOT / 'build') / 'index.html'}\n")
