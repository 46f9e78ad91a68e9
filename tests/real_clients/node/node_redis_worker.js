// node-redis: what ioredis_worker.js does, by its own names. Prints what it found as one line of JSON.
"use strict";

const { createClient } = require("@redis/client");

const [url, protocol] = process.argv.slice(2);
const PATIENCE_MS = 20_000;

function connected(name) {
  const client = createClient({ url, name, RESP: Number(protocol) });
  client.on("error", (error) => console.error(error));
  return client.connect();
}

// A reply lists its streams or, in RESP3, maps them.
function idsOf(reply) {
  const pages = Array.isArray(reply) ? reply.map((stream) => stream.messages) : Object.values(reply);
  return pages.flatMap((page) => page.map((entry) => entry.id));
}

async function main() {
  const client = await connected("writer");
  const reader = await connected("reader");
  const found = {};
  const next = { key: "jobs", id: ">" };

  const hello = await client.sendCommand(["HELLO"]);
  found.protocol = Array.isArray(hello) ? hello[hello.indexOf("proto") + 1] : hello.proto;
  found.id = await client.xAdd("jobs", "1-1", { n: "1" });
  found.group = await client.xGroupCreate("jobs", "g", "0");
  // Commands of one turn go out together: that is this client's pipeline.
  found.pipeline = await Promise.all([
    client.xAdd("jobs", "2-1", { n: "2" }),
    client.xAdd("jobs", "1-5", { n: "refused" }).catch((error) => error.message.slice(0, 11)),
    client.xLen("jobs"),
  ]);
  found.transaction = await client.multi().xAdd("jobs", "3-1", { n: "3" }).xLen("jobs").exec();
  await client.xAdd("bytes", "1-1", { f: Buffer.from([0, 255, 13, 10]) });
  found.binary = await client
    .withTypeMapping({ 36: Buffer })
    .xRange("bytes", "-", "+")
    .then((entries) => entries[0].message.f.toString("hex"));

  found.given = idsOf(await reader.xReadGroup("g", "ann", next, { COUNT: 10 }));
  found.acknowledged = await client.xAck("jobs", "g", ["1-1", "2-1"]);
  found.pending = await client
    .xPendingRange("jobs", "g", "-", "+", 10)
    .then((rows) => rows.map((row) => [row.id, row.consumer]));
  found.claimed = await client
    .xAutoClaim("jobs", "g", "bob", 0, "0-0", { COUNT: 5 })
    .then((reply) => reply.messages.map((entry) => entry.id));

  // The reader waits before the writer writes: the server says so.
  const waiting = reader.xReadGroup("g", "ann", next, { BLOCK: PATIENCE_MS });
  while (!/name=reader [^\n]*flags=b/.test(await client.sendCommand(["CLIENT", "LIST"])));
  await client.xAdd("jobs", "4-1", { n: "4" });
  found.woken = idsOf(await waiting);
  found.over = await reader.xRead({ key: "jobs", id: "$" }, { BLOCK: 1 });

  found.length = (await client.xInfoStream("jobs")).length;
  found.error = await client.xReadGroup("none", "ann", next).catch((error) => error.message.split(" ")[0]);

  await Promise.all([client.close(), reader.close()]);
  console.log(JSON.stringify(found));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
