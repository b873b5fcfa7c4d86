// SHA-512 (FIPS 180-4), fed in pieces: no message has to be in one buffer.
#pragma once

#include "bytes.h"

namespace penstock_lib {

class Sha512 {
 public:
  Sha512();
  ~Sha512();  // wipes: what was hashed may be a secret
  void add(Span piece);
  void finish(uint8_t digest[64]);

 private:
  void block(const uint8_t* data);

  uint64_t state_[8];
  uint64_t size_;
  uint8_t pending_[128];
};

void wipe(void* memory, size_t size);

}  // namespace penstock_lib
