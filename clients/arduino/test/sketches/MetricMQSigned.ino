// As sketches of MetricMQ are that sign and verify.
#include <MetricMQ.h>
#include <WiFi.h>

const uint8_t SECRET_KEY[64] = {1};
const uint8_t PUBLIC_KEY[32] = {2};
const uint32_t KEY_ID = 1;

MetricMQClient client;

void onSigned(const String& topic, const uint8_t* payload, size_t len, uint64_t seq, bool is_signed,
              uint32_t key_id, const uint8_t* sig) {
  Serial.printf("%s %d %lu %s %u: %.*s\n", topic.c_str(), (int)is_signed, (unsigned long)seq,
                sig ? "signed by" : "by", (unsigned)key_id, (int)len, payload);
}

void setup() {
  Serial.begin(115200);
  client.setSigningKey(SECRET_KEY, KEY_ID);
  client.addVerificationKey(PUBLIC_KEY, 1);
  client.enableLocalVerification(true);
  client.setSignedCallback(onSigned);
  client.setKeepAlive(15);
  client.enableExactlyOnce(true);
  client.setClientId("esp32-secure-01");
  client.begin(IPAddress(192, 168, 1, 100));
  client.connect();
  client.subscribe("secure/commands");
  client.publishSigned("secure/sensors/data", "{\"temp\":25.5}");
}

void loop() {
  if (!client.connected()) client.reconnect();
  if (client.getState() == MQ_ERROR) client.disconnect();
  client.loop();
  const uint8_t raw[] = {1, 2, 3};
  client.publishSigned("secure/sensors/raw", raw, sizeof raw);
  client.unsubscribe("secure/commands");
  Serial.println(client.getClientId());
  delay(10000);
}
