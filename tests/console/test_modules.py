"""The modules of the console: their own tests, their types, what they must not contain."""

import gzip
import re
import shutil
import subprocess

import pytest

from tests.console.conftest import HERE, STATIC

SOURCES = sorted((STATIC / "app").rglob("*.js"))
OWN_BYTES_MAX = 280_000  # of modules and style, as they are in the package
GZIPPED_BYTES_MAX = 94_000

# What would run text as code, or take it for markup. Preact has one such place, which only
# ``dangerouslySetInnerHTML`` reaches.
FORBIDDEN = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
    "dangerouslySetInnerHTML", "srcdoc", "javascript:", "createContextualFragment", "DOMParser",
)  # fmt: skip


def test_the_modules_pass_their_tests(modules):
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    command = [node, "--test", *map(str, sorted((modules / "js").glob("*.mjs")))]
    done = subprocess.run(command, cwd=modules, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5_000:]
    assert "# pass 0" not in done.stdout


def test_the_types_of_the_modules_are_right(typed_modules):
    compiler = HERE / "tools" / "node_modules" / "typescript" / "bin" / "tsc"
    if not compiler.exists() or shutil.which("node") is None:
        pytest.skip("TypeScript is not there: npm install --prefix tests/console/tools")
    command = ["node", str(compiler), "-p", str(typed_modules / "tsconfig.json")]
    done = subprocess.run(command, cwd=typed_modules, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5_000:]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(STATIC)))
def test_no_module_takes_text_for_code_or_markup(path):
    text = path.read_text()
    assert [word for word in FORBIDDEN if word in text] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(STATIC)))
def test_a_module_imports_only_what_is_in_the_package(path):
    for name in re.findall(r"""(?:from|import\()\s*['"]([^'"]+)['"]""", path.read_text()):
        assert name.startswith("."), f"{name} is not a path"
        assert (path.parent / name).resolve().is_file(), f"{name} is not there"


def test_every_module_says_what_it_is_for():
    assert [path.name for path in SOURCES if not path.read_text().startswith("/**")] == []


def test_nothing_of_the_console_names_another_host():
    own = [*SOURCES, STATIC / "style.css", STATIC / "index.html"]
    found = [path.name for path in own if re.search(r"https?://", path.read_text())]
    assert found == []


def test_the_console_is_small():
    own = [*SOURCES, STATIC / "style.css", STATIC / "index.html"]
    bodies = [path.read_bytes() for path in own]
    assert sum(map(len, bodies)) <= OWN_BYTES_MAX
    assert sum(len(gzip.compress(body, 9)) for body in bodies) <= GZIPPED_BYTES_MAX


def _luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one, other):
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _themes():
    style = (STATIC / "style.css").read_text()
    blocks = re.findall(r"\{[^{}]*--bg:[^{}]*\}", style)
    return [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in blocks]


def test_both_ways_to_have_the_dark_theme_are_the_same():
    light, by_system, by_choice = _themes()
    assert by_system == by_choice != light


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["bg", "surface", "hover", "chosen"])
@pytest.mark.parametrize("colour", ["text", "muted", "accent", "ok", "warn", "bad"])
def test_text_can_be_read_on_every_ground(theme, ground, colour):
    tokens = _themes()[theme]
    least = 5.5 if ground in {"bg", "surface"} and colour != "accent" else 4.5
    assert _contrast(tokens[colour], tokens[ground]) >= least
