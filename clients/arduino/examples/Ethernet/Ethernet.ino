// By cable, and with a cluster: if a node is away, the client goes on with the next.
#include <Ethernet.h>
#include <Penstock.h>
#include <SPI.h>

byte address[] = {0x02, 0x00, 0x00, 0x12, 0x34, 0x56};

EthernetClient network;
PenstockClient<> penstock(network);

// A board without a source of random bytes has to name one: two devices must not choose alike.
bool randomBytes(uint8_t* to, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      to[i] = static_cast<uint8_t>((to[i] << 1) ^ (analogRead(A0) & 1) ^ (micros() & 1));
    }
  }
  return true;
}

void setup() {
  Serial.begin(115200);
  Ethernet.begin(address);
  penstock.setRandom(randomBytes);
  penstock.setUser("gate", "its secret");
  penstock.begin("192.168.1.10");
  penstock.addHost("192.168.1.11");
  penstock.addHost("192.168.1.12");
  penstock.connect("gate-2");
}

void loop() {
  static uint32_t last = 0;
  Ethernet.maintain();
  penstock.loop();
  if (millis() - last >= 1000) {
    last = millis();
    penstock.publish("gate/2/temperature", "18.4");
  }
}
