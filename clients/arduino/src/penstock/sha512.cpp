#include "sha512.h"

#include <string.h>

namespace penstock_lib {

namespace {

// The first 64 bits behind the point of the square roots of the first 8 primes,
const uint64_t kInitial[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

// and of the cube roots of the first 80.
const uint64_t kRound[80] = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
    0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
    0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
    0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
    0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
    0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
    0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
    0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};

inline uint64_t rotate(uint64_t x, int n) { return (x >> n) | (x << (64 - n)); }

// The schedule of the 16 words that a round needs is computed in place, as it goes.
inline uint64_t word(uint64_t w[16], unsigned round) {
  uint64_t& now = w[round & 15];
  if (round >= 16) {
    const uint64_t a = w[(round + 1) & 15], b = w[(round + 14) & 15];
    now += (rotate(a, 1) ^ rotate(a, 8) ^ (a >> 7)) + w[(round + 9) & 15] +
           (rotate(b, 19) ^ rotate(b, 61) ^ (b >> 6));
  }
  return now;
}

}  // namespace

void wipe(void* memory, size_t size) {
  volatile uint8_t* at = static_cast<uint8_t*>(memory);
  while (size--) *at++ = 0;
}

Sha512::Sha512() : size_(0) { memcpy(state_, kInitial, sizeof state_); }

Sha512::~Sha512() { wipe(this, sizeof *this); }

void Sha512::add(Span piece) {
  while (piece.size) {
    const size_t used = size_ & 127;
    if (!used && piece.size >= 128) {
      block(piece.data);
      piece.data += 128, piece.size -= 128, size_ += 128;
      continue;
    }
    const size_t n = smaller(piece.size, 128 - used);
    memcpy(pending_ + used, piece.data, n);
    piece.data += n, piece.size -= n, size_ += n;
    if (!(size_ & 127)) block(pending_);
  }
}

void Sha512::finish(uint8_t digest[64]) {
  const uint64_t bits = size_ << 3;
  size_t used = size_ & 127;
  pending_[used++] = 0x80;
  if (used > 112) {
    memset(pending_ + used, 0, 128 - used);
    block(pending_);
    used = 0;
  }
  memset(pending_ + used, 0, 120 - used);
  put64(pending_ + 120, bits);  // the upper half of the length is 0: no message has 2^61 bytes
  block(pending_);
  for (int i = 0; i < 8; ++i) put64(digest + 8 * i, state_[i]);
}

void Sha512::block(const uint8_t* data) {
  uint64_t w[16], s[8];
  for (int i = 0; i < 16; ++i) w[i] = get64(data + 8 * i);
  memcpy(s, state_, sizeof s);
  for (unsigned round = 0; round < 80; ++round) {
    const uint64_t e = s[4], a = s[0];
    const uint64_t t1 = s[7] + (rotate(e, 14) ^ rotate(e, 18) ^ rotate(e, 41)) +
                        ((e & s[5]) ^ (~e & s[6])) + kRound[round] + word(w, round);
    const uint64_t t2 = (rotate(a, 28) ^ rotate(a, 34) ^ rotate(a, 39)) +
                        ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof s[0]);
    s[4] += t1;
    s[0] = t1 + t2;
  }
  for (int i = 0; i < 8; ++i) state_[i] += s[i];
  wipe(w, sizeof w);
  wipe(s, sizeof s);
}

}  // namespace penstock_lib
