// Numbers on the wire: big-endian, at any address.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace penstock_lib {

struct Span {
  const uint8_t* data;
  size_t size;
};

inline uint16_t get16(const uint8_t* at) {
  return static_cast<uint16_t>((at[0] << 8) | at[1]);
}

inline uint32_t get32(const uint8_t* at) {
  return (static_cast<uint32_t>(get16(at)) << 16) | get16(at + 2);
}

inline uint64_t get64(const uint8_t* at) {
  return (static_cast<uint64_t>(get32(at)) << 32) | get32(at + 4);
}

inline uint8_t* put16(uint8_t* at, uint16_t value) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
  return at + 2;
}

inline uint8_t* put32(uint8_t* at, uint32_t value) {
  return put16(put16(at, static_cast<uint16_t>(value >> 16)), static_cast<uint16_t>(value));
}

inline uint8_t* put64(uint8_t* at, uint64_t value) {
  return put32(put32(at, static_cast<uint32_t>(value >> 32)), static_cast<uint32_t>(value));
}

template <typename Number>
Number smaller(Number a, Number b) {
  return a < b ? a : b;
}

}  // namespace penstock_lib
