"""What one broker owns apart from its sockets: the parts that handlers work with."""

import asyncio
import logging
import shutil
from concurrent.futures import Executor
from functools import cached_property, partial
from secrets import token_bytes
from typing import TYPE_CHECKING

from kohort.broker.clock import Clock
from kohort.broker.config_values import ConfigValues
from kohort.broker.endpoints import Endpoint, is_authorizer_on
from kohort.broker.features import Features
from kohort.broker.fetch import FetchWaiters
from kohort.broker.fetch_sessions import FetchSessions
from kohort.broker.following import Following
from kohort.broker.group_configs import check_broker_settings
from kohort.broker.heavy_work import HeavyWork
from kohort.broker.memory import request_limit, sessions_limit
from kohort.broker.memory_budget import MemoryBudget
from kohort.broker.notices import Notices
from kohort.broker.settings import Settings
from kohort.broker.topics import Topics
from kohort.log.catalog import Catalog, ClusterCatalog
from kohort.log.log import Storage
from kohort.model.steady_time import SteadyTime
from kohort.model.topics import CONSUMER_OFFSETS
from kohort.security.acls import Authorizer

if TYPE_CHECKING:
    from kohort.broker.coordinator import GroupCoordinator
    from kohort.broker.sasl_mechanisms import Users

_of_memory = logging.getLogger("kohort.memory")
_of_storage = logging.getLogger("kohort.storage")
_FAULTS_LOGGED = 20  # in a minute: a disk that fails may hold thousands of partitions


class BrokerState:
    """The state behind the APIs. One event loop owns it; nothing here is called from another thread."""

    def __init__(
        self,
        settings: Settings,
        catalog: ClusterCatalog,
        storage: Storage,
        clock: Clock,
        executor: Executor | None = None,  # for tests, as that of ``open_data``
    ) -> None:
        self.settings = settings
        self.catalog = catalog
        self.storage = storage
        self.clock = clock
        self.deletion_time = SteadyTime()
        self.deletion_time.at(clock.now())  # a jump of the wall clock is measured from here
        self.configs = ConfigValues(catalog, settings.overrides)
        check_broker_settings(self.configs)
        self.features = Features(catalog, self.configs)
        self.topics = Topics(catalog, self.configs)
        self.fetch_sessions = FetchSessions(
            self.configs.number("max.incremental.fetch.session.cache.slots"), sessions_limit(self.configs)
        )
        self.fetch_waiters = FetchWaiters()
        patience_s = self.configs.number("kohort.stalled.ms") / 1_000
        self.notices = Notices(clock)
        self.budget = MemoryBudget(
            request_limit(self.configs),
            patience_s,
            asyncio.get_running_loop(),
            partial(self.notices.warn, _of_memory, "requests that are not read at once", reason="full"),
        )
        self.heavy_work = HeavyWork(executor)
        self.endpoints = tuple(Endpoint(one, settings.overrides, self.budget) for one in settings.endpoints())
        self.users: Users
        self.authorizer = _authorizer(settings, catalog) if is_authorizer_on(settings.overrides) else None
        storage.on_advance(self.fetch_waiters.look_again)
        storage.on_reopen(self.topics.replace_log)
        faults = partial(self.notices.warn, _of_storage, "faults of the storage", at_most=_FAULTS_LOGGED)
        storage.on_fault(faults)
        self.following = self.topics.following = Following(self)
        if self.authorizer is not None:
            authorizer = self.authorizer
            catalog.watch_acls(lambda: authorizer.changed(catalog.acls))

    @property
    def node_id(self) -> int:
        return self.catalog.node_id

    @property
    def log_dir(self) -> str:
        """The absolute path DescribeLogDirs shows; without a directory it gets a telling one."""
        if self.settings.cluster is not None:
            return "/postgresql"
        return str(self.settings.data.resolve()) if self.settings.data is not None else "/memory"

    def identity(self) -> dict[str, str]:
        """What tools ask a broker about itself; shown by DescribeConfigs, never altered."""
        bound = [f"{one.listener.name}://{one.bound}" for one in self.endpoints]
        advertised = [f"{one.listener.name}://{one.advertised}" for one in self.endpoints]
        return {
            "broker.id": str(self.node_id),
            "node.id": str(self.node_id),
            "log.dirs": self.log_dir,
            "listeners": ",".join(bound),
            "advertised.listeners": ",".join(advertised),
        }

    def volume_sizes(self) -> tuple[int, int]:
        """Total and usable bytes of the volume the data is on; -1 when it is in memory."""
        if self.settings.data is None:
            return -1, -1
        usage = shutil.disk_usage(self.settings.data)
        return usage.total, usage.free

    @cached_property
    def coordinator(self) -> "GroupCoordinator":
        """The group coordinator. Its vocabulary takes a while to import: it comes with the first group."""
        from kohort.broker.coordinator import GroupCoordinator
        from kohort.broker.journal import JournalWriter

        journal = JournalWriter(
            self.topics,
            self.storage,
            self.configs,
            self.clock,
            (lambda: self.catalog.session) if self.settings.cluster is not None else None,
        )
        coordinator = GroupCoordinator(self, journal)
        coordinator.start()
        return coordinator

    @property
    def started_coordinator(self) -> "GroupCoordinator | None":
        """The coordinator, if there was need of one."""
        return self.__dict__.get("coordinator")

    async def prepare_users(self) -> None:
        """Make the users of the settings, and what log-ins need."""
        if self.settings.users:
            from kohort.broker.scram_users import add_users

            await add_users(self.catalog, self.settings.users)
        if any(endpoint.sasl is not None for endpoint in self.endpoints):
            from kohort.broker.sasl_mechanisms import Users

            if not self.catalog.secret:
                await self.catalog.set_secret(token_bytes(32))
            self.users = Users(self.catalog.credentials, self.catalog.secret)
        for endpoint in self.endpoints:
            if endpoint.sasl is not None and endpoint.sasl.tokens is not None:
                await endpoint.sasl.tokens.start()

    def close_log_ins(self) -> None:
        """End what ``prepare_users`` began."""
        if hasattr(self, "users"):
            self.users.close()
        for endpoint in self.endpoints:
            if endpoint.sasl is not None and endpoint.sasl.tokens is not None:
                endpoint.sasl.tokens.close()

    async def start(self) -> None:
        """Open what is stored and begin to work."""
        await self.following.start()
        if self.topics.get(CONSUMER_OFFSETS) is not None:
            # Once we are listening: requests that come meanwhile get COORDINATOR_LOAD_IN_PROGRESS.
            asyncio.get_running_loop().call_soon(lambda: self.coordinator)

    async def stop_coordinating(self) -> None:
        """Answer all who wait for a group, and forget the groups."""
        if self.started_coordinator is not None:
            await self.started_coordinator.stop()

    async def stop(self) -> None:
        """Answer all who wait, write what is left to write, close the data cleanly."""
        await self.stop_coordinating()
        await self.following.stop()
        self.heavy_work.close()
        self.close_log_ins()
        self.notices.close()
        await self.storage.close()


def _authorizer(settings: Settings, catalog: Catalog) -> Authorizer:
    users = settings.overrides.get("super.users", "").split(";")
    is_open = settings.overrides.get("allow.everyone.if.no.acl.found", "").lower() == "true"
    made = Authorizer(
        catalog.acls,
        super_users=[user.strip() for user in users if user.strip()],
        allow_if_no_acl=is_open,
    )
    if not made.has_administrator and not is_open:
        logging.getLogger("kohort.authorizer").warning(
            "no user may change the rules of the authorizer: name one, super.users=User:NAME"
        )
    return made
