"use strict";
// kafkajs as a peer: runs the named steps in order, one JSON line per event.
// node peer.js BOOTSTRAP STEPS name=value …
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, PartitionAssigners, logLevel } = require("kafkajs");
const SnappyCodec = require("kafkajs-snappy");
const readline = require("node:readline");

CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec;
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy };
const RETENTION = "retention.ms";

const [bootstrap, steps, ...pairs] = process.argv.slice(2);
const options = Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
const topic = options.topic ?? "events";
const group = options.group ?? "readers";
const partitions = Number(options.partitions ?? 3);
const read = (path) => require("node:fs").readFileSync(path, "utf8");

function tls() {
  const own = options.certificate && read(options.certificate);
  return { ca: [read(options.ca)], ...(own && { cert: own, key: own }) };
}

function login(mechanism) {
  if (mechanism === "none") return undefined;
  if (mechanism === "OAUTHBEARER") return { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value: read(options.token) }) };
  return { mechanism: mechanism.toLowerCase(), username: options.user, password: options.password };
}

const kafka = new Kafka({
  clientId: options.client ?? "kafkajs-peer",
  brokers: [bootstrap],
  logLevel: logLevel.ERROR,
  logCreator: () => (entry) => process.stderr.write(JSON.stringify(entry) + "\n"),
  retry: { initialRetryTime: 50, retries: 8 },
  ...(options.ca && { ssl: tls(), sasl: login(options.mechanism ?? "SCRAM-SHA-256") }),
});
const admin = kafka.admin();

function emit(event, fields = {}) {
  process.stdout.write(JSON.stringify({ event, ...fields }) + "\n");
}

/** Asks until the answer is yes, for ten seconds at most: a broker may act a moment after it said so. */
async function settled(what, check) {
  const deadline = Date.now() + 10000;
  while (!(await check().catch(() => false))) {
    if (Date.now() > deadline) throw new Error(`${what} did not happen`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function partitionCount() {
  return (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length;
}

async function connect() {
  const cluster = await admin.describeCluster();
  emit("connected", { brokers: cluster.brokers.map((each) => each.nodeId), controller: cluster.controller, cluster: cluster.clusterId });
}

async function create() {
  const wanted = { topic, numPartitions: partitions, replicationFactor: 1, configEntries: [{ name: RETENTION, value: "60000000" }] };
  const made = await admin.createTopics({ topics: [wanted] });
  if (!made) throw new Error("createTopics said false");
  emit("created", { topic, partitions });
  await settled("creation", async () => (await partitionCount()) === partitions);
  const again = await admin.createTopics({ topics: [wanted] });
  if (!again) emit("refused", { what: "create", error: "TopicExists" });
}

async function list() {
  emit("topics", { names: (await admin.listTopics()).sort() });
}

async function describe() {
  emit("described", { topic, partitions: await partitionCount() });
}

async function showRetention(wanted) {
  const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: [RETENTION] }];
  await settled(`a change of ${RETENTION}`, async () => {
    const { configEntries } = (await admin.describeConfigs({ resources, includeSynonyms: false })).resources[0];
    return configEntries.some((each) => each.configName === RETENTION && each.configValue === wanted);
  });
  emit("config", { name: RETENTION, value: wanted });
}

async function configs() {
  await showRetention("60000000");
  const change = { type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: RETENTION, value: "70000000" }] };
  await admin.alterConfigs({ validateOnly: false, resources: [change] });
  await showRetention("70000000");
}

async function grow() {
  await admin.createPartitions({ topicPartitions: [{ topic, count: partitions + 1 }] });
  await settled("growth", async () => (await partitionCount()) === partitions + 1);
  emit("grown", { partitions: partitions + 1 });
}

async function offsets() {
  const first = (await admin.fetchTopicOffsets(topic)).find((each) => each.partition === 0);
  emit("offsets", { earliest: Number(first.low), latest: Number(first.high) });
}

async function truncate() {
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "1" }] });
  const first = (await admin.fetchTopicOffsets(topic)).find((each) => each.partition === 0);
  emit("truncated", { low: Number(first.low) });
}

async function groups() {
  emit("groups", { ids: (await admin.listGroups()).groups.map((each) => each.groupId).sort() });
  const described = (await admin.describeGroups([group])).groups[0];
  emit("group", { id: described.groupId, state: described.state, members: described.members.length });
}

async function committed() {
  const found = {};
  for (const each of await admin.fetchOffsets({ groupId: group })) {
    for (const one of each.partitions) found[`${each.topic}-${one.partition}`] = Number(one.offset);
  }
  emit("committed", { offsets: found });
}

async function forget() {
  await admin.deleteGroups([group]);
  emit("group-deleted", { id: group });
}

async function remove() {
  await admin.deleteTopics({ topics: [topic] });
  emit("deleted", { topic });
}

async function withProducer(work) {
  const producer = kafka.producer({ allowAutoTopicCreation: false });
  await producer.connect();
  await work(producer);
  await producer.disconnect();
}

async function produce() {
  const count = Number(options.count ?? 3);
  await withProducer(async (producer) => {
    for (const codec of (options.codecs ?? "none,gzip,snappy").split(",")) {
      const messages = Array.from({ length: count }, (_, i) => (
        { partition: 0, key: `${codec}-key`, value: `${codec}-${i}`, headers: { codec } }));
      const [answer] = await producer.send({ topic, messages, acks: -1, compression: CODECS[codec] });
      const base = Number(answer.baseOffset);
      emit("produced", { codec, offsets: messages.map((_, i) => base + i) });
    }
  });
}

async function spread() {
  const count = Number(options.count ?? 30);
  const total = await partitionCount();
  await withProducer(async (producer) => {
    const messages = Array.from({ length: count }, (_, i) => ({ partition: i % total, key: `k${i}`, value: `v${i}` }));
    await producer.send({ topic, messages });
  });
  emit("spread", { count });
}

function show(partition, message) {
  emit("record", {
    partition,
    offset: Number(message.offset),
    key: message.key?.toString() ?? null,
    value: message.value?.toString() ?? null,
    header: message.headers?.codec?.toString() ?? null,
  });
}

/** kafkajs has no consumer without a group, so "fetch" reads partition 0 as the only member of a throw-away one. */
async function fetch() {
  const wanted = Number(options.records ?? 9);
  const consumer = kafka.consumer({ groupId: `${group}-fetch`, maxWaitTimeInMs: 200, sessionTimeout: 6000, heartbeatInterval: 250 });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  let seen = 0;
  await new Promise((enough, fail) => {
    const timer = setTimeout(enough, Number(options.idle ?? 15000));
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        if (partition !== 0) return;
        show(partition, message);
        seen += 1;
        if (seen === wanted) { clearTimeout(timer); enough(); }
      },
    }).catch(fail);
  });
  await consumer.disconnect();
  emit("fetched", { count: seen });
}

function watch(consumer) {
  let current = [];
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const names = Object.entries(payload.memberAssignment).flatMap(([name, ids]) => ids.map((id) => `${name}-${id}`));
    if (current.length) emit("revoked", { partitions: current });
    current = names.sort();
    emit("assigned", { partitions: current });
  });
  consumer.on(consumer.events.CRASH, ({ payload }) => emit("error", { message: String(payload.error), restart: payload.restart }));
}

async function member() {
  const wanted = Number(options.records ?? Infinity);
  let seen = 0;
  let stop;
  const stopped = new Promise((resolve) => { stop = resolve; });
  const input = readline.createInterface({ input: process.stdin });
  input.on("line", (line) => (line === "die" ? process.exit(0) : stop()));
  input.on("close", stop);
  const consumer = kafka.consumer({
    groupId: group,
    sessionTimeout: Number(options.session ?? 6000),
    rebalanceTimeout: 20000,
    heartbeatInterval: 250,
    maxWaitTimeInMs: 200,
    partitionAssigners: [PartitionAssigners.roundRobin],
    retry: { initialRetryTime: 50, retries: 20 },
  });
  watch(consumer);
  await consumer.connect();
  await consumer.subscribe({ topics: topic.split("+"), fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: true,
    eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
      for (const message of batch.messages) {
        show(batch.partition, message);
        resolveOffset(message.offset);
        seen += 1;
      }
      await heartbeat();
      const offset = String(BigInt(batch.lastOffset()) + 1n);
      await consumer.commitOffsets([{ topic: batch.topic, partition: batch.partition, offset }]);
      emit("committed", { offsets: { [`${batch.topic}-${batch.partition}`]: Number(offset) } });
      if (seen >= wanted) stop();
    },
  });
  await stopped;
  emit("leaving", { count: seen });
  input.removeAllListeners("close");
  input.close();
  await consumer.disconnect();
  emit("closed", { count: seen });
}

const STEPS = {
  connect, create, list, describe, configs, grow, offsets, truncate, groups, committed, forget,
  delete: remove, produce, spread, fetch, group: member,
};

async function main() {
  let current = "start";
  try {
    await admin.connect();
    for (const name of steps.split(",")) {
      current = name;
      await STEPS[name]();
    }
    await admin.disconnect();
  } catch (error) {
    emit("error", { step: current, message: String(error) });
    process.exit(1);
  }
  emit("done");
  process.exit(0);
}

main();
