// Signed readings: the broker takes them only from the device that has the secret, and whoever
// reads them can verify that. `penstock keys new sensor7` makes a key and a header with it.
#if defined(ESP8266)
#include <ESP8266WiFi.h>
#else
#include <WiFi.h>
#endif
#include <Penstock.h>
#include <time.h>

const uint32_t kKeyId = 7;
const uint8_t kSecret[64] = {0};         // yours; only the first half, the seed, is used
const uint8_t kControlRoom[32] = {0};    // the public key of whoever may send commands
const uint32_t kControlRoomId = 1;

WiFiClient network;
PenstockClient<> penstock(network);

bool received(void*, const PenstockMessage& message) {
  Serial.print("verified command: ");
  Serial.write(message.payload, message.length);
  Serial.println();
  return true;
}

void setup() {
  Serial.begin(115200);
  WiFi.begin("your network", "its password");
  while (WiFi.status() != WL_CONNECTED) delay(100);
  configTime(0, 0, "pool.ntp.org");  // a signature has a time; until it is known, readings wait
  penstock.setSigningKey(kSecret, kKeyId);
  penstock.addVerificationKey(kControlRoom, kControlRoomId);
  penstock.requireSignature(true);  // what is not verified is not handed out
  penstock.onMessage(received);
  penstock.begin("192.168.1.10");
  penstock.subscribe("secure/commands");
  penstock.connect("sensor-7");
}

void loop() {
  static uint32_t last = 0;
  penstock.loop();
  if (millis() - last >= 60000) {
    last = millis();
    penstock.publishSigned("secure/sensor7", "21.5");
  }
}
