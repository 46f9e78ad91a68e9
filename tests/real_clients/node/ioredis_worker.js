// ioredis: a group, its workers, a pipeline, a transaction, a read that waits. Prints what it found as one line of JSON.
"use strict";

const Redis = require("ioredis");

const [url, protocol] = process.argv.slice(2);
const PATIENCE_MS = 20_000;

function connected(name) {
  return new Redis(url, { connectionName: name, protocol: Number(protocol), maxRetriesPerRequest: 3 });
}

// A reply names its streams, or its fields, in pairs, in a flat list or, in RESP3, in a map.
function pairsOf(reply) {
  if (reply instanceof Map) return [...reply];
  if (!Array.isArray(reply)) return Object.entries(reply);
  if (reply.every(Array.isArray)) return reply;
  return reply.flatMap((word, n) => (n % 2 === 0 ? [[word, reply[n + 1]]] : []));
}

function idsOf(reply) {
  return pairsOf(reply).flatMap(([, entries]) => entries.map(([id]) => id));
}

async function main() {
  const client = connected("writer");
  const reader = connected("reader");
  const found = {};

  found.protocol = new Map(pairsOf(await client.call("HELLO"))).get("proto");
  found.id = await client.xadd("jobs", "1-1", "n", "1");
  found.group = await client.xgroup("CREATE", "jobs", "g", "0");
  found.pipeline = await client
    .pipeline()
    .xadd("jobs", "2-1", "n", "2")
    .xadd("jobs", "1-5", "n", "refused")
    .xlen("jobs")
    .exec()
    .then((replies) => replies.map(([error, reply]) => (error === null ? reply : error.message.slice(0, 11))));
  found.transaction = await client
    .multi()
    .xadd("jobs", "3-1", "n", "3")
    .xlen("jobs")
    .exec()
    .then((replies) => replies.map(([, reply]) => reply));
  found.binary = await client
    .xadd("bytes", "1-1", "f", Buffer.from([0, 255, 13, 10]))
    .then(() => client.xrangeBuffer("bytes", "-", "+"))
    .then((entries) => entries[0][1][1].toString("hex"));

  const given = await reader.xreadgroup("GROUP", "g", "ann", "COUNT", 10, "STREAMS", "jobs", ">");
  found.given = idsOf(given);
  found.acknowledged = await client.xack("jobs", "g", "1-1", "2-1");
  found.pending = await client.xpending("jobs", "g", "-", "+", 10).then((rows) => rows.map((row) => row.slice(0, 2)));
  found.claimed = await client.xautoclaim("jobs", "g", "bob", 0, "0-0", "COUNT", 5).then((reply) => reply[1].map(([id]) => id));

  // The reader waits before the writer writes: the server says so.
  const waiting = reader.xreadgroup("GROUP", "g", "ann", "BLOCK", PATIENCE_MS, "STREAMS", "jobs", ">");
  while (!/name=reader [^\n]*flags=b/.test(await client.client("LIST")));
  await client.xadd("jobs", "4-1", "n", "4");
  found.woken = idsOf(await waiting);
  found.over = await reader.xread("BLOCK", 1, "STREAMS", "jobs", "$");

  found.length = new Map(pairsOf(await client.xinfo("STREAM", "jobs"))).get("length");
  found.error = await client
    .xreadgroup("GROUP", "none", "ann", "STREAMS", "jobs", ">")
    .catch((error) => error.message.split(" ")[0]);

  await Promise.all([client.quit(), reader.quit()]);
  console.log(JSON.stringify(found));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
