"""Links in documents resolve, and no file names the machine it was written on."""

from tests.tidy import checks
from tests.tidy.files import ROOT, complaints, read, tracked_files


def test_links_in_documents_resolve():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = {str(page.relative_to(ROOT)): checks.broken_links(page, read(page)) for page in pages}
    assert not checks.report(broken)


def test_no_file_names_a_machine_or_a_package_registry():
    assert not complaints(tracked_files(), checks.private_names)


def test_nothing_tells_people_to_install_another_project():
    files = [file for file in tracked_files() if "tidy" not in file.parts]
    assert not complaints(files, checks.foreign_installs)


def test_the_changelog_has_its_headings():
    assert not checks.changelog_faults(read(ROOT / "CHANGELOG.md"))
