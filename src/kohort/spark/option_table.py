"""Every option of the source: parsing, refusals and ``docs/reference/spark-options.md`` read these tables."""

from typing import NamedTuple

BOTH, STREAM, BATCH, MEMBER = "both", "stream", "batch", "member"


class Option(NamedTuple):
    """One option. ``where``: in which reads it has an effect; ``default`` as the page shows it."""

    name: str
    default: str
    where: str
    meaning: str


OPTIONS = (
    Option("kafka.bootstrap.servers", "required", BOTH, "addresses of brokers, `host:port,host:port`"),
    Option("subscribe", "one of three", BOTH, "topics, separated by commas"),
    Option(
        "subscribePattern", "one of three", BOTH,
        "a Python regular expression that whole topic names match; without internal topics",
    ),
    Option("assign", "one of three", BOTH, 'partitions, `{"topicA":[0,1],"topicB":[2]}`'),
    Option(
        "startingOffsets", "stream `latest`, batch `earliest`", BOTH,
        '`earliest`, `latest` (streams only), `group`, or `{"topicA":{"0":23,"1":-2}}` with all partitions '
        "(-2 earliest, -1 latest). Only a new query uses it: a restarted one goes on from its checkpoint",
    ),
    Option("startingTimestamp", "", BOTH, "milliseconds since 1970, for all partitions; wins over others"),
    Option(
        "startingOffsetsByTimestamp", "", BOTH, '`{"topicA":{"0":1000}}`; wins over `startingOffsets`',
    ),
    Option(
        "startingOffsetsByTimestampStrategy", "`error`", BOTH,
        "a partition without a record that late: `error`, or `latest` to start it at its end",
    ),
    Option("endingOffsets", "`latest`", BATCH, "`latest` or JSON as for `startingOffsets`"),
    Option("endingTimestamp", "", BATCH, "milliseconds since 1970; records before it are read"),
    Option("endingOffsetsByTimestamp", "", BATCH, "the same for each partition"),
    Option(
        "failOnDataLoss", "`true`", BOTH,
        "whether to fail if records are gone before they were read (expired, topic deleted); else a warning",
    ),
    Option("maxOffsetsPerTrigger", "", STREAM, "at most about this many offsets a batch, shared by volume"),
    Option("minOffsetsPerTrigger", "", STREAM, "wait until there are this many new offsets"),
    Option("maxTriggerDelay", "`15m`", STREAM, "but no longer than this"),
    Option("minPartitions", "", BOTH, "at least about this many tasks: large ranges of offsets are cut"),
    Option("maxRecordsPerPartition", "", BOTH, "at most this many offsets in a task: ranges are cut"),
    Option("includeHeaders", "`false`", BOTH, "whether there is a column `headers`"),
    Option("groupIdPrefix", "", BOTH, "none: no group is made up, so it needs no name"),
    Option("kafkaConsumer.pollTimeoutMs", "`60000`", BOTH, "how long a task tries to reach a broker"),
    Option("fetchOffset.numRetries", "`3`", STREAM, "asks again so often when a log seems to have shrunk"),
    Option("fetchOffset.retryIntervalMs", "`10`", STREAM, "with this pause"),
    Option(
        "partition.metadata.cache.ttl.ms", "`-1`", STREAM,
        "how long the list of partitions is kept; -1: it is asked for in every batch",
    ),
    Option(
        "commit", "with a group `member`, else `none`", STREAM,
        "`member`: the query is a member of the group and commits as one; `group`: it commits to the group "
        "from outside, which works while the group has no members; `none`",
    ),
    Option("kohort.offset.reset", "as `startingOffsets`", BOTH,
           "where `group` starts without a commit: `earliest` or `latest`"),
    Option("failOnFenced", "`false`", MEMBER, "whether to fail when the group gave our partitions away"),
    Option("kohort.instance", "", MEMBER, "`group.instance.id`: restarts cause no rebalance"),
    Option(
        "kohort.checkpoint",
        "",
        MEMBER,
        "the checkpoint's path: a stop can then commit its last batch, a start follow a reset of the group",
    ),
    Option(
        "kohort.unknown.options", "`refuse`", BOTH,
        "options that do not exist: `refuse` them, or `warn` and ignore them, as Spark's connector does "
        "without a word; for jobs that move over, also in writes",
    ),
    Option(
        "kohort.task.offsets", "`5000`", BOTH,
        "small ranges share a task up to this many offsets; 1: a task for each range, as in the connector",
    ),
    Option(
        "kohort.secrets.on", "`driver`", BOTH,
        "where the files and variables of secrets (`@FILE`, `env:NAME`) are read: by the `driver`, which "
        "sends the secrets to tasks, or by each process that logs in (`executor`); also in writes",
    ),
    Option("kohort.batch.rows", "`20000`", BOTH, "rows of an Arrow batch"),
    Option(
        "kohort.push.filters", "`false`", BATCH,
        "use filters on topic, partition and offset to read less; needs "
        "`spark.sql.python.filterPushdown.enabled`, else Spark refuses the query",
    ),
)  # fmt: skip

INT, FLAG, TEXT = "int", "flag", "text"


class Setting(NamedTuple):
    """A Java consumer setting that has an effect: our client's name for it, and what its value is."""

    ours: str
    kind: str


SETTINGS = {
    "client.id": Setting("client_id", TEXT),
    "client.rack": Setting("client_rack", TEXT),
    "group.protocol": Setting("group_protocol", TEXT),
    "group.remote.assignor": Setting("group_remote_assignor", TEXT),
    "session.timeout.ms": Setting("session_timeout_ms", INT),
    "heartbeat.interval.ms": Setting("heartbeat_interval_ms", INT),
    "max.poll.interval.ms": Setting("max_poll_interval_ms", INT),
    "partition.assignment.strategy": Setting("partition_assignment_strategy", TEXT),
    "isolation.level": Setting("isolation_level", TEXT),
    "max.partition.fetch.bytes": Setting("max_partition_fetch_bytes", INT),
    "fetch.max.wait.ms": Setting("fetch_max_wait_ms", INT),
    "check.crcs": Setting("check_crcs", FLAG),
    "request.timeout.ms": Setting("request_timeout_ms", INT),
    "default.api.timeout.ms": Setting("default_api_timeout_ms", INT),
    "retry.backoff.ms": Setting("retry_backoff_ms", INT),
    "retry.backoff.max.ms": Setting("retry_backoff_max_ms", INT),
    "metadata.max.age.ms": Setting("metadata_max_age_ms", INT),
    "exclude.internal.topics": Setting("exclude_internal_topics", FLAG),
}
"""``kafka.<name>`` of these goes to our client."""

UNKNOWN_OPTIONS = "kohort.unknown.options"
SECRETS_ON = "kohort.secrets.on"
DRIVER, EXECUTOR = "driver", "executor"
GROUP_ID, INSTANCE_ID = "group.id", "group.instance.id"

ACCEPTED = frozenset(
    {
        "allow.auto.create.topics", "auto.commit.interval.ms", "auto.include.jmx.reporter",
        "client.dns.lookup", "connections.max.idle.ms",
        "enable.metrics.push", "fetch.max.bytes", "fetch.min.bytes",
        "max.poll.records", "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy",
        "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
        "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
    }
)  # fmt: skip
"""Settings of the Java consumer that have no meaning here: taken, so that a job moves over unchanged."""

REFUSED = {
    "auto.offset.reset": 'set "startingOffsets" to say where a new query starts; a restarted one goes on '
    "from its checkpoint, and new partitions start at the beginning, so that nothing is missed",
    "enable.auto.commit": 'offsets are committed when Spark has made a batch durable: see "commit"',
    "key.deserializer": "keys are columns of bytes; decode them with functions of DataFrames",
    "value.deserializer": "values are columns of bytes; decode them with functions of DataFrames",
    "interceptor.classes": "interceptors are Java code and may alter records; use functions of DataFrames",
}
"""Settings that Spark's connector refuses as well, and what to do instead."""

SECURITY = tuple(
    prefix + mark for prefix in ("security", "ssl", "sasl", "enable.ssl", "enable.sasl") for mark in "._"
)
"""Prefixes of security settings: of Java, librdkafka and our client, see docs/howto/secured-cluster.md."""
