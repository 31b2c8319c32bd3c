"""How much memory there is, and which share of it each kind of use gets unless a setting says otherwise."""

import os
from functools import cache
from pathlib import Path

from kohort.broker.config_values import ConfigValues

_MIB = 1024 * 1024
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))

# A budget is memory divided by PARTS, and never less than LEAST: a broker cannot work with less.
REQUEST_PARTS, LEAST_FOR_REQUESTS = 32, 192 * _MIB
MEMBER_PARTS, LEAST_FOR_MEMBERS = 64, 128 * _MIB
SESSION_PARTS, LEAST_FOR_SESSIONS = 128, 64 * _MIB


@cache
def memory_size() -> int:
    """The memory this process may use: the machine's, or less if its control group says so."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUP_LIMITS:
        try:
            sizes.append(int(path.read_text()))
        except (OSError, ValueError):  # there is no such file, or it says "max"
            continue
    return min(sizes)


def _share(configs: ConfigValues, name: str, parts: int, least: int) -> int:
    wanted = configs.number(name)
    return wanted if wanted > 0 else max(memory_size() // parts, least)


def request_limit(configs: ConfigValues) -> int:
    """What requests that are being received and replies that are being sent may take together."""
    return _share(configs, "queued.max.request.bytes", REQUEST_PARTS, LEAST_FOR_REQUESTS)


def sessions_limit(configs: ConfigValues) -> int:
    """What the fetch sessions of all consumers may take together."""
    return _share(configs, "kohort.fetch.sessions.max.bytes", SESSION_PARTS, LEAST_FOR_SESSIONS)


def members_limit(configs: ConfigValues) -> int:
    """What the members of all groups may take together."""
    return _share(configs, "kohort.group.members.max.bytes", MEMBER_PARTS, LEAST_FOR_MEMBERS)


def show_limits(configs: ConfigValues) -> str:
    """The limits for the operator, with the settings that change them."""
    mib = {
        "requests and replies (queued.max.request.bytes)": request_limit(configs) // _MIB,
        "members of groups (kohort.group.members.max.bytes)": members_limit(configs) // _MIB,
        "fetch sessions (kohort.fetch.sessions.max.bytes)": sessions_limit(configs) // _MIB,
    }
    return ", ".join(f"{size:,} MiB for {use}" for use, size in mib.items())
