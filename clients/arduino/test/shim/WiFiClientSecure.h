// TLS under the name that boards give it, by OpenSSL. As on them, whoever connects is verified
// against the authority that was set. Without one it is a plain connection: programs of the tests
// learn at run time which is wanted.
#pragma once

#include <WiFi.h>

struct ssl_ctx_st;
struct ssl_st;

class WiFiClientSecure : public WiFiClient {
 public:
  ~WiFiClientSecure() override;
  bool setCACert(const char* pem);
  int connect(const char* host, uint16_t port) override;
  size_t write(const uint8_t* data, size_t size) override;
  int available() override;
  int read(uint8_t* to, size_t size) override;
  void stop() override;
  uint8_t connected() override;

 private:
  bool shakeHands(const char* host);
  bool isOver(int result);

  ssl_ctx_st* context_ = nullptr;
  ssl_st* session_ = nullptr;
  bool isBroken_ = false;
};
