// What a signature covers, as pieces: nothing has to be copied into one buffer.
#pragma once

#include <string.h>

#include "bytes.h"

namespace penstock_lib {

const size_t kNonceSize = 32;  // of a login

struct SignedText {
  uint8_t head[46];
  Span pieces[3];
  size_t count;

  // Version 1 covers topic and payload only, and has no attributes. Those of version 2 are the
  // trailer behind the signature: key id, time and nonce, 20 bytes.
  void set(Span topic, Span payload, const uint8_t* attributes) {
    count = 0;
    if (attributes) {
      memcpy(head, "penstock-signature-2", 20);
      memcpy(head + 20, attributes, 20);
      put16(head + 40, static_cast<uint16_t>(topic.size));
      put32(head + 42, static_cast<uint32_t>(payload.size));
      pieces[count++] = Span{head, sizeof head};
    }
    pieces[count++] = topic;
    pieces[count++] = payload;
  }

  void setLogin(const uint8_t nonce[kNonceSize]) {
    head[0] = 0;
    memcpy(head + 1, "penstock-login-1", 16);
    pieces[0] = Span{head, 17};
    pieces[1] = Span{nonce, kNonceSize};
    count = 2;
  }
};

// "key:7"; at most 14 characters, without a zero byte.
inline size_t writeKeyName(char* to, uint32_t id) {
  char digits[10];
  size_t count = 0;
  do {
    digits[count++] = static_cast<char>('0' + id % 10);
    id /= 10;
  } while (id);
  memcpy(to, "key:", 4);
  for (size_t i = 0; i < count; ++i) to[4 + i] = digits[count - 1 - i];
  return 4 + count;
}

}  // namespace penstock_lib
