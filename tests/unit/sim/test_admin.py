"""The administrator of a scenario."""

from kohort.sim.driver import Scenario


def test_every_request_is_answered_under_the_name_it_returned() -> None:
    scenario = Scenario()
    scenario.commit(None, {("t", 0): 1})
    admin = scenario.admin
    assert scenario.replies[admin.describe()].state == "Empty"
    assert scenario.replies[admin.describe("x", version=5)].state == "Dead"
    assert len(scenario.replies[admin.list_groups(states=["Empty"], types=["classic"])].groups) == 1
    assert len(scenario.replies[admin.delete_offsets(("t", 0))].rows) == 1
    assert len(scenario.replies[admin.delete_groups("g", "h")].groups) == 2
