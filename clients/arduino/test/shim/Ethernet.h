// The cable of this machine is its WiFi.
#pragma once

#include <WiFi.h>

using EthernetClient = WiFiClient;

class EthernetClass {
 public:
  int begin(const uint8_t*) { return 1; }
  int maintain() { return 0; }
};
static EthernetClass Ethernet;
