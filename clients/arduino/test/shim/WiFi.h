// A network connection over a socket of this machine, under the name that boards give it.
#pragma once

#include <Arduino.h>
#include <Client.h>

enum { WL_CONNECTED = 3 };

class WiFiClass {
 public:
  int begin(const char*, const char* = nullptr) { return WL_CONNECTED; }
  int status() { return WL_CONNECTED; }
};
extern WiFiClass WiFi;

class WiFiClient : public Client {
 public:
  ~WiFiClient() override { stop(); }
  int connect(const char* host, uint16_t port) override;
  size_t write(const uint8_t* data, size_t size) override;
  int available() override;
  int read(uint8_t* to, size_t size) override;
  void stop() override;
  uint8_t connected() override;
  int socket() const { return socket_; }

 private:
  bool dial(const char* host, uint16_t port);

  int socket_ = -1;
  bool isAtEnd_ = false;
};
