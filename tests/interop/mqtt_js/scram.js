// Logs in by SCRAM-SHA-256, publishes to itself, proves itself again, and prints what happened.

const crypto = require("node:crypto");
const mqtt = require("mqtt");

const [port, user, password, topic] = process.argv.slice(2);
const METHOD = "SCRAM-SHA-256";

const hmac = (key, text) => crypto.createHmac("sha256", key).update(text).digest();

class Login {
  constructor() {
    this.bare = `n=${user},r=${crypto.randomBytes(18).toString("base64")}`;
  }

  properties(text) {
    return { authenticationMethod: METHOD, authenticationData: Buffer.from(text) };
  }

  first() {
    return this.properties("n,," + this.bare);
  }

  final(challenge) {
    const fields = Object.fromEntries(
      challenge.split(",").map((field) => [field[0], field.slice(2)]),
    );
    const salt = Buffer.from(fields.s, "base64");
    const salted = crypto.pbkdf2Sync(password, salt, Number(fields.i), 32, "sha256");
    const clientKey = hmac(salted, "Client Key");
    const storedKey = crypto.createHash("sha256").update(clientKey).digest();
    const withoutProof = `c=biws,r=${fields.r}`;
    const covered = [this.bare, challenge, withoutProof].join(",");
    const signature = hmac(storedKey, covered);
    const proof = Buffer.from(clientKey.map((byte, index) => byte ^ signature[index]));
    this.expected = "v=" + hmac(hmac(salted, "Server Key"), covered).toString("base64");
    return this.properties(`${withoutProof},p=${proof.toString("base64")}`);
  }

  isRight(packet) {
    return packet.properties.authenticationData.toString() === this.expected;
  }
}

let login = new Login();
const seen = { proofs: [], messages: [] };

const client = mqtt.connect(`mqtt://127.0.0.1:${port}`, {
  protocolVersion: 5,
  reconnectPeriod: 0,
  properties: login.first(),
});

const end = (more) => {
  console.log(JSON.stringify({ ...seen, ...more }));
  client.end(true);
};

client.handleAuth = (packet, done) => {
  if (packet.reasonCode === 0x18) {
    const properties = login.final(packet.properties.authenticationData.toString());
    done(undefined, { cmd: "auth", reasonCode: 0x18, properties });
  } else {
    seen.proofs.push(login.isRight(packet));
    done();
    client.publish(topic, "after");
  }
};

client.on("connect", (connack) => {
  seen.proofs.push(login.isRight(connack));
  client.subscribe(topic, () => client.publish(topic, "before"));
});

client.on("message", (_topic, payload) => {
  seen.messages.push(payload.toString());
  if (seen.messages.length === 2) {
    end({});
    return;
  }
  login = new Login();
  client._sendPacket({ cmd: "auth", reasonCode: 0x19, properties: login.first() });
});

client.on("error", (error) => end({ code: error.code }));
