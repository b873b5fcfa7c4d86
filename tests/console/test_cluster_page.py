"""The Cluster page of three real nodes, one of which is killed while somebody looks."""

import pytest

from tests.console.browser import AXE, expect
from tests.e2e.cluster_processes import nodes, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
PATIENCE_MS = 60_000  # for an election on a busy machine


def begin(made):
    options = [f"--node={made.as_option(number)}" for number in made.running]
    code, said = made.command(1, "init", *options)
    assert code == 0, said
    until(lambda: "survives the loss of 1 node" in made.status(made.leader())["diagnosis"])
    return made.leader()


def cut(window):
    """Cells of which a part is not shown."""
    cells = "(cells) => cells.filter((one) => one.scrollWidth > one.clientWidth)"
    return window.page.locator("tbody td").evaluate_all(cells + ".map((one) => one.innerText)")


def row(window, number):
    return window.page.locator("tbody tr", has_text=f"{number} ").filter(
        has=window.page.locator("strong", has_text=str(number))
    )


def test_the_page_says_who_leads_which_node_may_stop_and_when_one_is_gone(browser, tmp_path):
    axe = AXE()
    with nodes(tmp_path, 3) as made:
        leader = begin(made)
        gone = next(number for number in made.running if number != leader)
        stays = 6 - leader - gone
        with browser.window(made.running[leader].port) as window:
            window.page.add_init_script(axe)
            window.open("cluster")
            window.see("survives the loss of 1 node", "h1")
            window.see("on the disks of 2 of 3 nodes", "main")
            expect(row(window, leader)).to_contain_text("leader (this)")
            expect(row(window, leader)).to_contain_text("yes, 2 of 3 stay; another one will lead")
            for number in (gone, stays):
                expect(row(window, number)).to_contain_text("follower")
                expect(row(window, number)).to_contain_text("yes, 2 of 3 stay")
                expect(row(window, number)).to_contain_text(made.address(number))
            window.see("Healthy · ack = on disk of 2 of 3", "header.top .state")
            assert cut(window) == []
            assert window.barriers() == []
            made.kill(gone)
            expect(row(window, gone)).to_contain_text("silent", timeout=PATIENCE_MS)
            expect(row(window, stays)).to_contain_text("no: 1 of 3 stay, and 2 are needed")
            window.see(f"node {gone}", "h1")
            expect(window.page.locator("h1")).not_to_contain_text("survives the loss of 1")
            assert window.barriers() == []
