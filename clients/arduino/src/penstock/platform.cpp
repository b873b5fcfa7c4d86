#include "platform.h"

#include <Arduino.h>

#if defined(ESP32) || defined(ESP8266) || defined(ARDUINO_ARCH_RP2040) || defined(__linux__)
#define PENSTOCK_HAS_GETTIMEOFDAY
#include <sys/time.h>
#endif

#if defined(ESP32)
#include <esp_random.h>
#elif defined(ESP8266)
extern "C" {
#include <osapi.h>
}
#elif defined(__linux__)
#include <sys/random.h>
#endif

namespace penstock_lib {

uint64_t wallClock() {
#ifdef PENSTOCK_HAS_GETTIMEOFDAY
  const int64_t kNewYear2025 = 1735689600;  // before it, the clock counts from the start
  struct timeval now;
  if (gettimeofday(&now, nullptr) == 0 && int64_t{now.tv_sec} > kNewYear2025) {
    return static_cast<uint64_t>(now.tv_sec) * 1000u + static_cast<uint64_t>(now.tv_usec) / 1000u;
  }
#endif
  return 0;
}

#if defined(ESP32)
bool trueRandom(uint8_t* to, size_t size) {
  esp_fill_random(to, size);
  return true;
}
#elif defined(ESP8266)
bool trueRandom(uint8_t* to, size_t size) {
  os_get_random(to, size);
  return true;
}
#elif defined(ARDUINO_ARCH_RP2040) && defined(ARDUINO_ARCH_MBED) == 0
bool trueRandom(uint8_t* to, size_t size) {
  for (size_t i = 0; i < size; ++i) to[i] = static_cast<uint8_t>(rp2040.hwrand32());
  return true;
}
#elif defined(__linux__)
bool trueRandom(uint8_t* to, size_t size) {
  return getrandom(to, size, 0) == static_cast<ssize_t>(size);
}
#else
bool trueRandom(uint8_t*, size_t) { return false; }
#endif

}  // namespace penstock_lib
