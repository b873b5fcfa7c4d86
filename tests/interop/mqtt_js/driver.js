// Does what lines of JSON on its input ask, and answers in lines of JSON: see ../driven_clients.py.
const readline = require("node:readline");
const mqtt = require("mqtt");

const clients = new Map();
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const bytes = (text) => Buffer.from(text, "base64");
const refusal = (error) => {
  const code = error.packet?.granted?.[0] ?? error.code;
  const reason = error.packet?.properties?.reasonString ?? null;
  return typeof code === "number" ? { code, reason } : { error: String(error) };
};

function grouped(user) {
  const groups = {};
  for (const [name, value] of user) (groups[name] ??= []).push(value);
  return groups;
}

function properties(given) {
  const known = {
    userProperties: given.user.length ? grouped(given.user) : undefined,
    contentType: given.contentType,
    responseTopic: given.responseTopic,
    correlationData: given.correlation && bytes(given.correlation),
    payloadFormatIndicator: given.payloadFormat === null ? undefined : given.payloadFormat === 1,
    messageExpiryInterval: given.expiry,
    topicAlias: given.alias,
  };
  return Object.fromEntries(Object.entries(known).filter(([, value]) => value != null));
}

function said(packet) {
  const got = packet.properties ?? {};
  const user = Object.entries(got.userProperties ?? {});
  return {
    user: user.flatMap(([name, values]) => [values].flat().map((value) => [name, value])),
    contentType: got.contentType ?? null,
    responseTopic: got.responseTopic ?? null,
    correlation: got.correlationData?.toString("base64") ?? null,
    payloadFormat: got.payloadFormatIndicator === undefined ? null : +got.payloadFormatIndicator,
    expiry: got.messageExpiryInterval ?? null,
    identifiers: [got.subscriptionIdentifier ?? []].flat(),
  };
}

function options(asked) {
  const is5 = asked.version === 5;
  const own = { sessionExpiryInterval: asked.expiry };
  if (asked.receiveMaximum) own.receiveMaximum = asked.receiveMaximum;
  if (asked.aliasMaximum) own.topicAliasMaximum = asked.aliasMaximum;
  const will = asked.will && {
    topic: asked.will.topic,
    payload: bytes(asked.will.payload),
    qos: asked.will.qos,
    retain: asked.will.retain,
    ...(is5 && {
      properties: { ...properties(asked.will.properties), willDelayInterval: asked.willDelay },
    }),
  };
  return {
    host: "127.0.0.1",
    port: asked.port,
    protocolVersion: asked.version,
    clientId: asked.id,
    clean: asked.clean,
    reconnectPeriod: 0,
    ...(is5 && { properties: own }),
    ...(will && { will }),
  };
}

const actions = {
  connect(asked) {
    const client = mqtt.connect(options(asked));
    const name = asked.client;
    clients.set(name, client);
    let last = { code: 0, reason: null };
    client.on("message", (topic, payload, packet) => {
      const { qos, retain } = packet;
      const message = { topic, payload: payload.toString("base64"), qos, retain };
      say({ client: name, message: { ...message, properties: said(packet) } });
    });
    client.on("disconnect", (packet) => {
      last = { code: packet.reasonCode, reason: packet.properties?.reasonString ?? null };
    });
    client.on("close", () => say({ client: name, ended: last }));
    return new Promise((resolve, reject) => {
      client.once("connect", (packet) => resolve({ sessionPresent: packet.sessionPresent }));
      client.on("error", reject);
    });
  },
  async publish(asked, client) {
    const acknowledged = [];
    const publish = async (message) => {
      const own = { qos: message.qos, retain: message.retain };
      if (asked.version === 5) own.properties = properties(message.properties);
      await client.publishAsync(message.topic, bytes(message.payload), own);
      if (message.qos) acknowledged.push(message.payload);
    };
    await Promise.all(asked.messages.map(publish));
    return { acknowledged };
  },
  async subscribe(asked, client) {
    const { qos, noLocal: nl, retainAsPublished: rap, retainHandling: rh } = asked;
    const own = asked.identifier ? { subscriptionIdentifier: asked.identifier } : undefined;
    const options = asked.version === 5 ? { qos, nl, rap, rh, properties: own } : { qos };
    const [granted] = await client.subscribeAsync(asked.filter, options);
    return { granted: granted.qos };
  },
  async unsubscribe(asked, client) {
    await client.unsubscribeAsync(asked.filter);
    return {};
  },
  async disconnect(asked, client) {
    await client.endAsync();
    return {};
  },
};

readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const asked = JSON.parse(line);
  try {
    const answer = await actions[asked.do](asked, clients.get(asked.client));
    say({ call: asked.call, ...answer });
  } catch (error) {
    say({ call: asked.call, ...refusal(error) });
  }
});
