// Keys. Only a sketch that sets one links Ed25519: the rest of the client calls it by pointer.
#include <string.h>

#include "core.h"

namespace penstock_lib {

void Core::signWith(const SigningKey& key, const Span* pieces, size_t count, uint8_t* to) {
  key.sign(pieces, count, to);
}

void Core::setSigningKey(const uint8_t secret[64], uint32_t id, uint8_t version) {
  key_.set(secret);
  keyId_ = id;
  setSigningVersion(version);
  sign_ = signWith;
}

void Core::setSigningVersion(uint8_t version) { keyVersion_ = version == 1 ? 1 : 2; }

bool Core::addVerificationKey(const uint8_t publicKey[32], uint32_t id) {
  if (keysUsed_ == memory_.keyCount) return false;
  memcpy(memory_.keys[keysUsed_].publicKey, publicKey, 32);
  memory_.keys[keysUsed_++].id = id;
  verify_ = verify;
  return true;
}

}  // namespace penstock_lib
