// Jobs of a queue, each given to one worker: the broker gives it to another if this one leaves
// without having acknowledged it. A job may take long; loop() must be called meanwhile.
#if defined(ESP8266)
#include <ESP8266WiFi.h>
#else
#include <WiFi.h>
#endif
#include <Penstock.h>

const uint8_t kValve = 4;

WiFiClient network;
PenstockClient<> penstock(network);

uint64_t job = 0;  // under way; 0: none
uint32_t began = 0, lasts = 0;

// "5" opens the valve for five seconds. It is acknowledged when it is closed again.
bool received(void*, const PenstockMessage& message) {
  char seconds[8] = "";
  memcpy(seconds, message.payload, message.length < 7 ? message.length : 7);
  digitalWrite(kValve, HIGH);
  job = message.sequence;
  began = millis();
  lasts = static_cast<uint32_t>(atol(seconds)) * 1000u;
  return false;
}

void setup() {
  pinMode(kValve, OUTPUT);
  WiFi.begin("your network", "its password");
  while (WiFi.status() != WL_CONNECTED) delay(100);
  penstock.onMessage(received);
  penstock.begin("192.168.1.10");
  PenstockSubscribe one;
  one.prefetch = 1;  // the next job comes when this one is acknowledged
  penstock.subscribe("q:watering", one);
  penstock.connect("valve-1");
}

void loop() {
  penstock.loop();
  if (job && millis() - began >= lasts) {
    digitalWrite(kValve, LOW);
    penstock.ack(job);
    job = 0;
  }
}
