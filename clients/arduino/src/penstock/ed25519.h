// Ed25519 (RFC 8032) over pieces of a message, so that topic and payload are signed where they lie.
//
// The steps of the RFC and SHA-512 are ours. The arithmetic is Monocypher's (src/vendor).
#pragma once

#include "bytes.h"

namespace penstock_lib {

class SigningKey {
 public:
  void set(const uint8_t seed[32]);  // expands the seed, once; the seed itself is not kept
  void sign(const Span* pieces, size_t count, uint8_t signature[64]) const;
  const uint8_t* publicKey() const { return public_; }

 private:
  uint8_t scalar_[32], prefix_[32], public_[32];
};

bool verify(const uint8_t publicKey[32], const uint8_t signature[64], const Span* pieces,
            size_t count);

}  // namespace penstock_lib
