// Wake, measure, publish, sleep. The board sleeps only when the broker's disk has the reading; if
// the broker cannot be reached, the reading is saved and goes with the next one.
//
// The store keeps publishes with the numbers by which the broker recognises them: one that was
// stored although its acknowledgement was lost is not stored twice.
#if defined(ESP8266)
#include <ESP8266WiFi.h>
#else
#include <WiFi.h>
#endif
#include <LittleFS.h>
#include <Penstock.h>

class FileStore : public PenstockStore {
 public:
  size_t load(uint8_t slot, uint8_t* to, size_t capacity) override {
    char name[16];
    File file = LittleFS.open(nameOf(slot, name), "r");
    const size_t size = file ? file.read(to, capacity) : 0;
    file.close();
    return size;
  }

  // Written beside and renamed: power may fail at any moment.
  bool save(uint8_t slot, const uint8_t* data, size_t size) override {
    char name[16];
    File file = LittleFS.open("/penstock.new", "w");
    const bool isWritten = file && file.write(data, size) == size;
    file.close();
    return isWritten && LittleFS.rename("/penstock.new", nameOf(slot, name));
  }

 private:
  static const char* nameOf(uint8_t slot, char name[16]) {
    snprintf(name, 16, "/penstock.%u", static_cast<unsigned>(slot));
    return name;
  }
};

WiFiClient network;
PenstockClient<> penstock(network);
FileStore store;

void setup() {
  LittleFS.begin();
  WiFi.begin("your network", "its password");
  for (int i = 0; i < 100 && WiFi.status() != WL_CONNECTED; ++i) delay(100);
  penstock.setStore(&store);
  penstock.begin("192.168.1.10");
  char reading[16];
  snprintf(reading, sizeof reading, "%d", analogRead(A0));
  penstock.publish("field/soil", reading);  // saved before this returns
  penstock.connect("soil-3");
  penstock.flush(10000);
  penstock.disconnect();
  ESP.deepSleep(600000000ull);
}

void loop() {}
