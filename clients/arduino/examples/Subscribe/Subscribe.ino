// Commands, each handled once: a command that was sent while this device was off arrives when it is
// on again, and none arrives a second time after it was handled.
#if defined(ESP8266)
#include <ESP8266WiFi.h>
#else
#include <WiFi.h>
#endif
#include <Penstock.h>

const uint8_t kLamp = 2;

WiFiClient network;
PenstockClient<> penstock(network);

// True acknowledges; after false the broker sends the message again on the next connection.
bool received(void*, const PenstockMessage& message) {
  Serial.println(message.topic);
  if (message.is("on")) digitalWrite(kLamp, HIGH);
  if (message.is("off")) digitalWrite(kLamp, LOW);
  return true;
}

void lost(void*, const PenstockNews& news) {
  Serial.print("told: ");
  Serial.println(news.text);
}

void setup() {
  Serial.begin(115200);
  pinMode(kLamp, OUTPUT);
  WiFi.begin("your network", "its password");
  while (WiFi.status() != WL_CONNECTED) delay(100);
  penstock.onMessage(received);
  penstock.onLost(lost);
  penstock.begin("192.168.1.10");
  penstock.subscribe("plant/lamp");
  penstock.connect("lamp-1");  // a name of its own: the broker remembers by it what was handled
}

void loop() { penstock.loop(); }
