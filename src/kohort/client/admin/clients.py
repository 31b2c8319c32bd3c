"""``AsyncAdmin`` and ``Admin``: administration of a cluster, with and without an event loop.

Calls that take several items return a result for each: the item's answer, or its BrokerError as a value.
Calls about one thing raise. Whatever fails for a passing reason is repeated within ``api_timeout_ms``.
"""

from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from kohort.client.admin import configs, groups, topics
from kohort.client.cluster import ClusterClient
from kohort.client.errors import ClientClosedError, SettingError
from kohort.client.loop_thread import LoopThread, OwnerProcess
from kohort.client.security.settings import SecurityOptions
from kohort.client.settings import DEFAULTS, ClientOptions, bootstrap_text, secured

P = ParamSpec("P")
T = TypeVar("T")
_Call = Coroutine[Any, Any, T]


def _of_cluster(
    call: Callable[Concatenate[ClusterClient, P], _Call[T]],
) -> "Callable[Concatenate[AsyncAdmin, P], _Call[T]]":
    """A function of a cluster as a method of AsyncAdmin."""

    @wraps(call)
    def method(self: "AsyncAdmin", /, *args: P.args, **kwargs: P.kwargs) -> _Call[T]:
        return call(self.cluster, *args, **kwargs)

    return method


class AsyncAdmin:
    """``async with AsyncAdmin("host:9092") as admin``; or on a Cluster that its owner closes.

    A partition may be a plain pair of topic and number. Security settings are keyword arguments, as those of
    consumers.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | ClusterClient,
        options: ClientOptions = DEFAULTS,
        **security: Unpack[SecurityOptions],
    ) -> None:
        if isinstance(bootstrap_servers, ClusterClient):
            if security or options is not DEFAULTS:
                raise SettingError(
                    "an admin client on a ClusterClient has the settings of the ClusterClient",
                    hint="give options and security settings to the ClusterClient, or an address here",
                )
            self.cluster = bootstrap_servers
            self._owns_cluster = False
        else:
            options = secured(options, security, is_text=False)
            self.cluster = ClusterClient(bootstrap_text(bootstrap_servers), options)
            self._owns_cluster = True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {','.join(map(str, self.cluster.bootstrap))}>"

    async def __aenter__(self) -> Self:
        if self._owns_cluster:
            await self.cluster.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns_cluster:
            self.cluster.close()

    describe_cluster = _of_cluster(topics.describe_cluster)
    connection_to = _of_cluster(topics.connection_to)
    describe_log_dirs = _of_cluster(topics.describe_log_dirs)
    list_topics = _of_cluster(topics.list_topics)
    describe_topics = _of_cluster(topics.describe_topics)
    describe_topic = _of_cluster(topics.describe_topic)
    create_topics = _of_cluster(topics.create_topics)
    create_topic = _of_cluster(topics.create_topic)
    delete_topics = _of_cluster(topics.delete_topics)
    create_partitions = _of_cluster(topics.create_partitions)
    delete_records = _of_cluster(topics.delete_records)
    list_offsets = _of_cluster(topics.list_offsets)
    describe_configs = _of_cluster(configs.describe_configs)
    alter_configs = _of_cluster(configs.alter_configs)
    find_coordinator = _of_cluster(groups.find_coordinator)
    list_groups = _of_cluster(groups.list_groups)
    describe_groups = _of_cluster(groups.describe_groups)
    list_group_offsets = _of_cluster(groups.list_group_offsets)
    alter_group_offsets = _of_cluster(groups.alter_group_offsets)
    delete_groups = _of_cluster(groups.delete_groups)
    delete_group_offsets = _of_cluster(groups.delete_group_offsets)


def _blocking(
    call: Callable[Concatenate[AsyncAdmin, P], _Call[T]],
) -> "Callable[Concatenate[Admin, P], T]":
    """A method of AsyncAdmin as one that waits for its result."""

    @wraps(call)
    def method(self: "Admin", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(lambda admin: call(admin, *args, **kwargs))

    return method


class Admin:
    """``with Admin("host:9092") as admin``: administration, call by call, by any number of threads."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        options: ClientOptions = DEFAULTS,
        **security: Unpack[SecurityOptions],
    ) -> None:
        self._admin = AsyncAdmin(bootstrap_servers, options, **security)
        self._loop: LoopThread | None = None
        self._owner_process = OwnerProcess("admin client")

    def __repr__(self) -> str:
        return repr(self._admin).replace("AsyncAdmin", "Admin", 1)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Connect. Raises NoBrokerError at once if no broker answers. ``with`` does this."""
        if self._loop is not None:
            return
        self._owner_process = OwnerProcess("admin client")
        self._loop = LoopThread("kohort admin")
        try:
            self.run(lambda admin: admin.__aenter__())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections; calls that still wait in other threads fail. Does nothing after a fork."""
        loop, self._loop = self._loop, None
        if loop is not None and not self._owner_process.is_another:
            loop.do(self._admin.cluster.close)
            loop.stop()

    def run(self, work: Callable[[AsyncAdmin], Coroutine[Any, Any, T]]) -> T:
        """The result of ``work``, which may make several calls of the ``AsyncAdmin`` inside at a time."""
        self._owner_process.check()
        if self._loop is None:
            raise ClientClosedError("the admin client is not running", hint="use it inside `with`")
        begun = self._loop.submit(work(self._admin))
        try:
            return begun.result()
        except CancelledError:
            raise ClientClosedError("the admin client was closed meanwhile") from None
        except BaseException:
            begun.cancel()  # an interrupt: no thread waits for it any more
            raise

    describe_cluster = _blocking(AsyncAdmin.describe_cluster)
    describe_log_dirs = _blocking(AsyncAdmin.describe_log_dirs)
    list_topics = _blocking(AsyncAdmin.list_topics)
    describe_topics = _blocking(AsyncAdmin.describe_topics)
    describe_topic = _blocking(AsyncAdmin.describe_topic)
    create_topics = _blocking(AsyncAdmin.create_topics)
    create_topic = _blocking(AsyncAdmin.create_topic)
    delete_topics = _blocking(AsyncAdmin.delete_topics)
    create_partitions = _blocking(AsyncAdmin.create_partitions)
    delete_records = _blocking(AsyncAdmin.delete_records)
    list_offsets = _blocking(AsyncAdmin.list_offsets)
    describe_configs = _blocking(AsyncAdmin.describe_configs)
    alter_configs = _blocking(AsyncAdmin.alter_configs)
    find_coordinator = _blocking(AsyncAdmin.find_coordinator)
    list_groups = _blocking(AsyncAdmin.list_groups)
    describe_groups = _blocking(AsyncAdmin.describe_groups)
    list_group_offsets = _blocking(AsyncAdmin.list_group_offsets)
    alter_group_offsets = _blocking(AsyncAdmin.alter_group_offsets)
    delete_groups = _blocking(AsyncAdmin.delete_groups)
    delete_group_offsets = _blocking(AsyncAdmin.delete_group_offsets)
