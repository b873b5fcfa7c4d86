// Numbers on the wire: big-endian, at any address.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace penstock_lib {

struct Span {
  const uint8_t* data;
  size_t size;
};

// Not inline: a board has to fetch and place each byte, and these are called everywhere.
uint16_t get16(const uint8_t* at);
uint32_t get32(const uint8_t* at);
uint64_t get64(const uint8_t* at);

// Each returns where it ended.
uint8_t* put16(uint8_t* at, uint16_t value);
uint8_t* put32(uint8_t* at, uint32_t value);
uint8_t* put64(uint8_t* at, uint64_t value);

template <typename Number>
Number smaller(Number a, Number b) {
  return a < b ? a : b;
}

}  // namespace penstock_lib
