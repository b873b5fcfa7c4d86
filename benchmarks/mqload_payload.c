/* What messages carry: the stamp by which they are recognised, and text.
 *
 * The text is cut from a long stretch of readings in JSON, or of noise (-v), each time a little
 * further on. So payloads differ from message to message, as real ones do: a broker that recognises
 * what it has seen gains nothing, and the cost is that of copying. The last byte follows from the
 * length alone; by it a payload that was cut short or damaged is noticed.
 */
#include "mqload.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 1 << 22, NOISE_BYTES = 1 << 24, READING_BYTES_MAX = 160 };

static u8 *text;
static size_t text_len, place;

static u8 filler(size_t at) { return 'a' + at % 26; }

static void write_readings(u8 *at, const u8 *end) {
  static const char *const states[] = {"idle", "running", "charging", "door open"};
  char line[READING_BYTES_MAX];
  while (at < end) {
    u32 r = random_u32(), s = random_u32();
    int len = snprintf(line, sizeof line,
                       "{\"device\":\"d%u\",\"temperature\":%.2f,\"humidity\":%.1f,"
                       "\"battery\":%u,\"state\":\"%s\"}\n",
                       r % 100000, (int)(s % 12000) / 100.0 - 20, (r >> 17) % 1000 / 10.0,
                       3000 + (s >> 20), states[r >> 30]);
    if (len > end - at) len = end - at;
    memcpy(at, line, len);
    at += len;
  }
}

void make_text(void) {
  text_len = opt.noise ? NOISE_BYTES : TEXT_BYTES;
  if (text_len < 2 * (size_t)opt.payload_max) text_len = 2 * (size_t)opt.payload_max;
  text = zeroed(text_len, 1);
  if (!opt.noise) write_readings(text, text + text_len);
  else for (size_t i = 0; i < text_len; i++) text[i] = random_u32() >> 24;
}

void fill_payload(u8 *payload, int bytes) {
  for (int i = PAYLOAD_BYTES_MIN; i < bytes; i++) payload[i] = filler(i);
}

void vary_payload(u8 *payload, int bytes) {  /* between the stamp and the last byte */
  int count = bytes - PAYLOAD_BYTES_MIN - 1;
  if (count <= 0) return;
  if (place + count > text_len) place -= text_len - count;   /* a little further on each lap */
  memcpy(payload + PAYLOAD_BYTES_MIN, text + place, count);
  place += count + 1;
}

void put_stamp(u8 *payload, u64 stamp, u32 id, u32 sequence) {
  memcpy(payload, &stamp, 8);
  memcpy(payload + 8, &id, 4);
  memcpy(payload + 12, &sequence, 4);
}

bool is_ours(const u8 *payload, size_t len, u32 id) {
  if ((int)len < opt.payload_min || (int)len > opt.payload_max) return false;
  if (id >= (u32)opt.publishers) return false;
  return len == PAYLOAD_BYTES_MIN || payload[len - 1] == filler(len - 1);
}
