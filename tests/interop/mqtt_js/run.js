// node run.js URL TOPIC VERSION [CA-FILE]: prints what `exchange` saw as one line of JSON.
const { readFileSync } = require("node:fs");
const mqtt = require("mqtt");
const { exchange } = require("./exchange.js");

const [url, topic, version, authority] = process.argv.slice(2);
const options = { protocolVersion: Number(version) };
if (authority) options.ca = readFileSync(authority);

exchange(mqtt, url, topic, options).then(
  (result) => console.log(JSON.stringify(result)),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
