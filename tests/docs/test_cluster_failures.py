"""Every failure mode of cluster 6 and every trap of cluster 10 has a test, or a place where it is kept."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPECIFICATION = (ROOT / "docs" / "spec" / "cluster.md").read_text(encoding="utf-8")

LEASE = "tests/unit/log/postgres/test_sessions.py"
LANES = "tests/unit/log/postgres/test_lanes.py"
SCHEMA = "tests/unit/log/postgres/test_schema.py"
STORAGE = "tests/unit/log/postgres/test_storage.py"
STATEMENTS = "tests/unit/log/postgres/test_statements.py"
CATALOG = "tests/unit/log/postgres/test_catalog.py"
STATUS = "tests/cli/test_cluster.py::test_the_status_names_the_cluster_and_the_oldest_transaction"
TAKEOVER = "tests/broker/test_takeover.py"
PURE_LEASE = "tests/unit/cluster/test_lease.py"
FAILOVER = "tests/cluster/test_failover.py"
LAPSED = "tests/broker/test_lapsed.py"

FAILURES = {
    "restart or crash (sync on)": [f"{FAILOVER}::restart_postgres", f"{FAILOVER}::kill_postgres"],
    "stall shorter than W": [f"{LEASE}::test_a_short_pause_costs_nothing_but_a_lapse"],
    "stall longer than T": [
        f"{FAILOVER}::stall_postgres",
        f"{LEASE}::test_after_an_outage_of_the_database_nobody_is_buried",
    ],
    # no standby is started: what a node sees of it is a restart, or tables that have gone back
    "failover, synchronous standby": [f"{FAILOVER}::kill_postgres"],
    "failover, asynchronous standby": [
        f"{CATALOG}::test_a_database_that_was_restored_is_read_again_and_all_is_led_at_new_epochs",
        f"{LANES}::test_a_database_that_forgot_records_is_noticed_after_a_lost_connection",
    ],
    "old primary still reachable": ["docs/howto/cluster.md"],
    "pool exhausted": [f"{CATALOG}::test_a_node_that_does_not_get_all_its_connections_does_not_start"],
    "disk full": [f"{LANES}::test_what_an_error_leaves_unstored_is_sent_again"],
    "serialization failure, deadlock": [f"{LANES}::test_what_an_error_leaves_unstored_is_sent_again"],
    "a paused node inside a transaction": [
        f"{STATEMENTS}::test_every_connection_has_the_settings_of_its_purpose"
    ],
    "missing rights": [f"{SCHEMA}::test_each_missing_right_is_named_with_the_grants_to_run"],
    "schema older than the code": [
        f"{SCHEMA}::test_older_tables_are_refused_until_they_are_migrated",
        f"{SCHEMA}::test_newer_tables_are_used_until_they_ask_for_newer_code",
    ],
    "pooler in transaction mode": [f"{SCHEMA}::test_a_pooler_in_transaction_mode_is_refused"],
}
TRAPS = {
    1: [f"{LEASE}::test_an_append_under_way_is_below_the_epoch_that_is_taken_meanwhile"],
    2: [f"{PURE_LEASE}::test_answers_may_leave_for_a_window_that_is_counted_from_the_sending"],
    3: [
        "src/kohort/log/postgres/sessions.py::boot_clock",
        f"{LAPSED}::test_a_fetch_that_waited_says_nothing_of_what_it_found",
    ],
    4: [f"{STATEMENTS}::test_no_statement_takes_the_start_of_its_transaction_for_the_time"],
    5: [f"{STATEMENTS}::test_leaders_have_no_index"],
    6: [f"{LEASE}::test_after_an_outage_of_the_database_nobody_is_buried"],
    7: [f"{LEASE}::test_a_burial_that_has_to_wait_does_not_cost_the_own_lease"],
    8: ["docs/howto/cluster.md"],
    9: [f"{LANES}::test_a_transaction_that_outlives_its_connection_is_stored_once"],
    10: [
        f"{STORAGE}::test_a_leader_that_was_replaced_does_not_say_out_of_range",
        f"{LAPSED}::test_requests_for_a_group_are_not_coordinator",
    ],
    11: [f"{LEASE}::test_an_epoch_that_is_taken_again_is_above_all_that_were_in_use"],
    12: [f"{STATEMENTS}::test_appends_notify_nobody"],
    13: [f"{STATEMENTS}::test_every_connection_has_the_settings_of_its_purpose"],
    14: [f"{LAPSED}::test_no_member_expires_while_it_cannot_be_heard"],
    15: ["tests/broker/test_led_elsewhere.py::test_there_is_no_hint_without_a_leader_or_to_one_of_the_past"],
    16: ["tests/broker/test_cluster.py::test_acls_and_configs_that_one_node_changes_hold_on_the_others"],
    17: ["tests/unit/broker/test_following.py::test_partitions_are_opened_and_deleted_a_few_at_a_time"],
    18: [f"{LANES}::test_an_outcome_that_stays_unknown_is_refused_when_the_window_closes"],
    19: [f"{STORAGE}::test_compaction_keeps_the_newest_record_of_each_key"],
    20: [STATUS],
    21: [STATUS],
    22: [f"{TAKEOVER}::test_a_static_member_keeps_its_id_though_its_coordinator_dies"],
}
PLACES = sorted({place for places in [*FAILURES.values(), *TRAPS.values()] for place in places})


def test_every_failure_mode_and_every_trap_has_a_place() -> None:
    failures = SPECIFICATION.partition("## 6. When PostgreSQL misbehaves")[2].partition("\n**Migrations**")[0]
    rows = re.findall(r"^\| (.+?) \|", failures, re.MULTILINE)[1:]
    assert [[name for name in FAILURES if row.startswith(name)] for row in rows] == [
        [each] for each in FAILURES
    ]
    traps = SPECIFICATION.partition("## 10. Traps")[2].partition("## 11.")[0]
    assert [int(number) for number in re.findall(r"^(\d+)\. ", traps, re.MULTILINE)] == list(TRAPS)


@pytest.mark.parametrize("place", PLACES)
def test_each_place_exists(place: str) -> None:
    file, _, name = place.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert not name or re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE), f"{file} has no {name}"
