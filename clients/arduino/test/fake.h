// A network whose other end is the test: what it says, what it was told, how much it takes at once.
#pragma once

#include <Client.h>
#include <string.h>

#include <string>

class FakeNetwork : public Client {
 public:
  std::string toRead, written;
  size_t takes = SIZE_MAX;      // bytes of each write
  size_t gives = SIZE_MAX;      // bytes of each read
  bool isReachable = true, isOpen = false;
  unsigned dials = 0;

  int connect(const char*, uint16_t) override {
    ++dials;
    return isOpen = isReachable;
  }
  size_t write(const uint8_t* data, size_t size) override {
    const size_t n = size < takes ? size : takes;
    written.append(reinterpret_cast<const char*>(data), n);
    return n;
  }
  int available() override {
    return static_cast<int>(toRead.size() < gives ? toRead.size() : gives);
  }
  int read(uint8_t* to, size_t size) override {
    const size_t n = toRead.size() < size ? toRead.size() : size;
    memcpy(to, toRead.data(), n);
    toRead.erase(0, n);
    return static_cast<int>(n);
  }
  void stop() override {
    isOpen = false;
    toRead.clear();
  }
  uint8_t connected() override { return isOpen || !toRead.empty(); }
};
