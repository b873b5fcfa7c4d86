#include "ed25519.h"

#include <string.h>

#include "../vendor/monocypher.h"
#include "sha512.h"

namespace penstock_lib {

namespace {

// The digest of a beginning and of all pieces, as a number modulo the order of the group.
void hashToScalar(Span a, Span b, const Span* pieces, size_t count, uint8_t scalar[32]) {
  uint8_t digest[64];
  Sha512 hash;
  hash.add(a);
  hash.add(b);
  for (size_t i = 0; i < count; ++i) hash.add(pieces[i]);
  hash.finish(digest);
  crypto_eddsa_reduce(scalar, digest);
  wipe(digest, sizeof digest);
}

}  // namespace

void SigningKey::set(const uint8_t seed[32]) {
  uint8_t digest[64];
  Sha512 hash;
  hash.add(Span{seed, 32});
  hash.finish(digest);
  crypto_eddsa_trim_scalar(scalar_, digest);
  memcpy(prefix_, digest + 32, 32);
  wipe(digest, sizeof digest);
  crypto_eddsa_scalarbase(public_, scalar_);
}

void SigningKey::sign(const Span* pieces, size_t count, uint8_t signature[64]) const {
  uint8_t r[32], h[32];
  hashToScalar(Span{prefix_, 32}, Span{prefix_, 0}, pieces, count, r);
  crypto_eddsa_scalarbase(signature, r);
  hashToScalar(Span{signature, 32}, Span{public_, 32}, pieces, count, h);
  crypto_eddsa_mul_add(signature + 32, h, scalar_, r);
  wipe(r, sizeof r);
}

bool verify(const uint8_t publicKey[32], const uint8_t signature[64], const Span* pieces,
            size_t count) {
  uint8_t h[32];
  hashToScalar(Span{signature, 32}, Span{publicKey, 32}, pieces, count, h);
  return crypto_eddsa_check_equation(signature, publicKey, h) == 0;
}

}  // namespace penstock_lib
