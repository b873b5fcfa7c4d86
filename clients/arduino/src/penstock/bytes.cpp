#include "bytes.h"

namespace penstock_lib {

uint16_t get16(const uint8_t* at) { return static_cast<uint16_t>((at[0] << 8) | at[1]); }

uint32_t get32(const uint8_t* at) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = (value << 8) | at[i];
  return value;
}

uint64_t get64(const uint8_t* at) {
  return (static_cast<uint64_t>(get32(at)) << 32) | get32(at + 4);
}

uint8_t* put16(uint8_t* at, uint16_t value) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
  return at + 2;
}

uint8_t* put32(uint8_t* at, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) *at++ = static_cast<uint8_t>(value >> shift);
  return at;
}

uint8_t* put64(uint8_t* at, uint64_t value) {
  return put32(put32(at, static_cast<uint32_t>(value >> 32)), static_cast<uint32_t>(value));
}

}  // namespace penstock_lib
