// A reading every ten seconds. What the broker has not acknowledged waits in the offline buffer,
// and leaves when there is a connection: nothing is lost while the network is away for a while.
#if defined(ESP8266)
#include <ESP8266WiFi.h>
#else
#include <WiFi.h>
#endif
#include <Penstock.h>

WiFiClient network;
PenstockClient<> penstock(network);

void published(void*, uint32_t ticket, PenstockResult result) {
  Serial.print("reading ");
  Serial.print(ticket);
  if (result == PenstockResult::Stored) {
    Serial.println(" is on the broker's disk");
  } else {
    Serial.print(" was refused: ");
    Serial.println(penstock.lastErrorText());
  }
}

void setup() {
  Serial.begin(115200);
  WiFi.begin("your network", "its password");
  while (WiFi.status() != WL_CONNECTED) delay(100);
  penstock.onPublished(published);
  penstock.begin("192.168.1.10");
  penstock.connect("pump-7");  // if it fails, loop() goes on trying
}

void loop() {
  static uint32_t last = 0;
  penstock.loop();
  if (millis() - last >= 10000) {
    last = millis();
    char reading[24];
    snprintf(reading, sizeof reading, "{\"bar\": %d}", analogRead(A0));
    if (!penstock.publish("plant/pump7", reading)) Serial.println("the offline buffer is full");
  }
}
