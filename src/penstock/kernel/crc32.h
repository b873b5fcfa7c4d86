/* CRC-32 (the polynomial of zlib, reflected) of long inputs by carry-less multiplication.
 *
 * Sixty-four bytes at a time are folded into four accumulators: each is multiplied by the powers
 * of x that move it past the next block, and added to that block. What remains are 128 bits, which
 * are reduced to 32 by Barrett's method. It is some ten times faster than tables.
 */
#ifndef PENSTOCK_CRC32_H
#define PENSTOCK_CRC32_H

#include <stddef.h>
#include <stdint.h>

enum { CRC32_FOLDED_BYTES_MIN = 64 };

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* x to these powers modulo the polynomial, bits reflected: 4 blocks ahead, then 1 block ahead */
#define FOLD_4 _mm_set_epi64x(0x01c6e41596, 0x0154442bd4)
#define FOLD_1 _mm_set_epi64x(0x00ccaa009e, 0x01751997d0)
#define FOLD_64 _mm_set_epi64x(0, 0x0163cd6124)
#define BARRETT _mm_set_epi64x(0x01f7011641, 0x01db710641) /* quotient, polynomial */

static int crc32_can_fold(void) {
  return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}

__attribute__((target("pclmul,sse4.1"))) static inline __m128i crc32_fold(
    __m128i sum, __m128i powers, __m128i next) {
  __m128i low = _mm_clmulepi64_si128(sum, powers, 0x00);
  __m128i high = _mm_clmulepi64_si128(sum, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

__attribute__((target("pclmul,sse4.1"))) static inline uint32_t crc32_reduce(__m128i sum) {
  const __m128i words = _mm_setr_epi32(~0, 0, ~0, 0);
  __m128i rest = _mm_clmulepi64_si128(sum, FOLD_1, 0x10);
  sum = _mm_xor_si128(_mm_srli_si128(sum, 8), rest);
  rest = _mm_clmulepi64_si128(_mm_and_si128(sum, words), FOLD_64, 0x00);
  sum = _mm_xor_si128(_mm_srli_si128(sum, 4), rest);
  rest = _mm_clmulepi64_si128(_mm_and_si128(sum, words), BARRETT, 0x10);
  rest = _mm_clmulepi64_si128(_mm_and_si128(rest, words), BARRETT, 0x00);
  return (uint32_t)_mm_extract_epi32(_mm_xor_si128(sum, rest), 1);
}

/* `size` is a multiple of 16, at least 64; `crc` is without zlib's inversion. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t crc32_folded(
    const uint8_t *data, size_t size, uint32_t crc) {
  const __m128i *blocks = (const __m128i *)data, *end = blocks + size / 16;
  __m128i sums[4];
  for (int i = 0; i < 4; i++) sums[i] = _mm_loadu_si128(blocks++);
  sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128((int)crc));
  while (end - blocks >= 4)
    for (int i = 0; i < 4; i++) sums[i] = crc32_fold(sums[i], FOLD_4, _mm_loadu_si128(blocks++));
  for (int i = 1; i < 4; i++) sums[i] = crc32_fold(sums[i - 1], FOLD_1, sums[i]);
  while (blocks < end) sums[3] = crc32_fold(sums[3], FOLD_1, _mm_loadu_si128(blocks++));
  return crc32_reduce(sums[3]);
}

#else

static int crc32_can_fold(void) { return 0; }

static uint32_t crc32_folded(const uint8_t *data, size_t size, uint32_t crc) {
  (void)data, (void)size;
  return crc;
}

#endif

/* The rest of an input, or a short one, byte by byte. The table is 8 steps of each byte's value. */
static uint32_t crc32_steps[256];

static inline void crc32_prepare(void) {
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t sum = byte;
    for (int i = 0; i < 8; i++) sum = sum & 1 ? sum >> 1 ^ 0xedb88320u : sum >> 1;
    crc32_steps[byte] = sum;
  }
}

static inline uint32_t crc32_short(const uint8_t *data, size_t size, uint32_t crc) {
  while (size--) crc = crc >> 8 ^ crc32_steps[(crc ^ *data++) & 0xff];
  return crc;
}

#endif
