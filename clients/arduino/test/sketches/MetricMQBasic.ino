// As sketches of MetricMQ are: names and shapes of its documentation.
#include <MetricMQ.h>
#include <WiFi.h>

MetricMQClient client;

void setup() {
  Serial.begin(115200);
  WiFi.begin("YourSSID", "YourPass");
  while (WiFi.status() != WL_CONNECTED) delay(500);
  client.begin("192.168.1.100", 6379);
  client.connect("esp32-node-01");
  client.subscribe("commands", [](const String& topic, const uint8_t* payload, size_t len,
                                  uint64_t seq) {
    Serial.printf("%s %lu: %.*s\n", topic.c_str(), (unsigned long)seq, (int)len, payload);
  });
}

void loop() {
  if (!client.isConnected()) {
    Serial.println("[MetricMQ] Reconnecting...");
    client.connect("esp32-node-01");
  }
  client.loop();
  client.publish("sensors/temperature", String(21.5, 2));
  delay(5000);
}
