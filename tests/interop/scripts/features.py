"""UpdateFeatures: which levels ``group.version`` may take, and what members are told at level 0."""

from collections.abc import Iterator

from tests.interop.scripts.consumers import ConsumerMember, describing
from tests.interop.scripts.exchange import Answer, Exchange, Reply
from tests.interop.scripts.setting import ready_group, settle

from kohort.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

FEATURE = "group.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def updates(
    *wanted: tuple[str, int], kind: int = UPGRADE, may_fall: bool = False, validate_only: bool = False
) -> UpdateFeaturesRequest:
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=may_fall)
        for name, level in wanted
    ]
    return UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)


def feature_refusals(x: Exchange) -> Iterator[tuple[str, Answer]]:
    """Nothing here changes a level."""
    for version in range(3):
        yield f"none v{version}", x.get(updates(), version)
        yield f"as it is v{version}", x.get(updates((FEATURE, 1)), version)
        yield f"no such feature v{version}", x.get(updates(("script.version", 1)), version)
        yield f"too high v{version}", x.get(updates((FEATURE, 2)), version)
        yield f"below zero v{version}", x.get(updates((FEATURE, -1)), version)
        yield f"lower without saying so v{version}", x.get(updates((FEATURE, 0)), version)
    for version in (1, 2):
        for kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            yield f"as it is, kind {kind} v{version}", x.get(updates((FEATURE, 1), kind=kind), version)
            tried = updates((FEATURE, 0), kind=kind, validate_only=True)
            yield f"tried, kind {kind} v{version}", x.get(tried, version)
        for kind in (0, 4, -1):
            yield f"kind {kind} v{version}", x.get(updates((FEATURE, 0), kind=kind), version)
        yield f"higher as a downgrade v{version}", x.get(updates((FEATURE, 2), kind=2), version)
        twice = updates((FEATURE, 1), (FEATURE, 1))
        yield f"twice v{version}", x.get(twice, version)
        mixed = updates((FEATURE, 0), ("script.version", 1), kind=SAFE_DOWNGRADE)
        yield f"one of two is unknown v{version}", x.get(mixed, version)
        yield f"no such feature at 0 v{version}", x.get(updates(("script.version", 0)), version)
        yield f"no name v{version}", x.get(updates(("", 1)), version)
    (member,) = _members(x, "script.feature-refusals")
    yield "consumer groups go on", member.join("script.none")


def feature_levels(x: Exchange) -> Iterator[tuple[str, Answer]]:
    """Without the feature the consumer protocol is unsupported; members find their group as it was."""
    (member,) = _members(x, "script.feature-levels")
    yield "joins", member.join("script.none")
    try:
        yield "v0 cannot lower a level", x.get(updates((FEATURE, 0), may_fall=True), 0)
        for version, kind in ((1, SAFE_DOWNGRADE), (2, UNSAFE_DOWNGRADE)):
            down = updates((FEATURE, 0), kind=kind)
            yield f"down v{version}", x.get(down, version)
            settle("the level is 0", lambda: _code(member.beat()) != 0)
            yield f"beats at level 0, v{version}", member.beat()
            yield f"described at level 0, v{version}", x.get(describing(member.group), 1)
            yield f"at level 0 already v{version}", x.get(down, version)
            yield f"up as a downgrade v{version}", x.get(updates((FEATURE, 1), kind=SAFE_DOWNGRADE), 1)
            yield f"up v{version}", x.get(updates((FEATURE, 1)), 2 * version - 2)  # 0 and 2
            settle("the level is 1", lambda: _code(member.beat()) == 0)
            yield f"beats again v{version}", member.beat()
    finally:
        x.ask(updates((FEATURE, 1)), 1)
    yield "leaves", member.leave()


def _members(x: Exchange, group: str) -> tuple[ConsumerMember, ...]:
    ready_group(x, group)
    return (ConsumerMember(x, group, "one"),)


def _code(answer: Answer) -> int:
    assert isinstance(answer, Reply)
    code: int = getattr(answer.message, "error_code")  # noqa: B009 - of a heartbeat
    return code
