// What sketches and the library use of Arduino, on a machine with POSIX.
//
// Time is real by default. `shimAddMillis` lets it jump, which is how tests let weeks pass.
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "WString.h"

using byte = uint8_t;

enum { LOW, HIGH, INPUT = 0, OUTPUT };
const uint8_t A0 = 17;

unsigned long millis();
unsigned long micros();
void delay(unsigned long ms);
void yield();

inline void pinMode(uint8_t, uint8_t) {}
inline void digitalWrite(uint8_t, uint8_t) {}
inline int analogRead(uint8_t) { return 512; }
inline void configTime(long, int, const char*) {}

class HardwareSerial {
 public:
  void begin(unsigned long) {}
  size_t write(const uint8_t* data, size_t size) { return fwrite(data, 1, size, stdout); }
  int printf(const char* format, ...) __attribute__((format(printf, 2, 3)));
  void print(const char* text) { fputs(text, stdout); }
  void print(const String& text) { print(text.c_str()); }
  void print(unsigned long number) { fprintf(stdout, "%lu", number); }
  void print(unsigned number) { print(static_cast<unsigned long>(number)); }
  void println() { print("\n"); }
  template <typename Printable>
  void println(const Printable& what) {
    print(what);
    println();
  }
};
extern HardwareSerial Serial;

class EspClass {
 public:
  void deepSleep(uint64_t) { exit(0); }
};
extern EspClass ESP;

class IPAddress {
 public:
  IPAddress(uint8_t a, uint8_t b, uint8_t c, uint8_t d) : parts_{a, b, c, d} {}
  String toString() const {
    String text;
    for (int i = 0; i < 4; ++i) text += String(i ? "." : "") + String(int{parts_[i]});
    return text;
  }

 private:
  uint8_t parts_[4];
};

void shimAddMillis(uint64_t ms);
