/* XADD of four ordinary fields (-O): temperature, humidity, battery and state.
 *
 * The values, and their lengths, differ from entry to entry. All of them follow from publisher and
 * sequence, which the state tells: what is read back is computed again and compared with it.
 */
#include "mqload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 4, VALUE_BYTES_MAX = 48 };

typedef struct { char text[FIELDS][VALUE_BYTES_MAX]; int len[FIELDS]; } reading;

static const char *const names[FIELDS] = {"temperature", "humidity", "battery", "state"};
static const char *const states[] = {"idle ", "running ", "charging ", "door open "};

/* ---- Values --------------------------------------------------------------------------------- */

static char *put_decimal(char *at, u32 value) {  /* snprintf would cost more than all the rest */
  char digits[10];
  int count = 0;
  do digits[count++] = '0' + value % 10; while (value /= 10);
  while (count) *at++ = digits[--count];
  return at;
}

static char *put_fraction(char *at, u32 hundredths) {
  at = put_decimal(at, hundredths / 100);
  *at++ = '.';
  *at++ = '0' + hundredths / 10 % 10;
  if (hundredths % 10) *at++ = '0' + hundredths % 10;
  return at;
}

static char *put_words(char *at, const char *words) {
  size_t len = strlen(words);
  return (char *)memcpy(at, words, len) + len;
}

static void end_value(reading *r, int field, const char *end) {
  r->len[field] = end - r->text[field];
}

static void read_sensors(reading *r, u32 id, u32 sequence) {
  u64 mixed = ((u64)id << 32 | sequence) * 0x9e3779b97f4a7c15ull;
  mixed ^= mixed >> 29;
  char *at = r->text[0];
  if (mixed >> 62 == 0) *at++ = '-';
  end_value(r, 0, put_fraction(at, mixed % 4000));
  end_value(r, 1, put_fraction(r->text[1], (mixed >> 12) % 10000));
  end_value(r, 2, put_decimal(r->text[2], (mixed >> 26) % 4200));
  at = put_decimal(put_words(r->text[3], states[mixed >> 40 & 3]), id);
  *at++ = '/';
  end_value(r, 3, put_decimal(at, sequence));
}

/* ---- Sending -------------------------------------------------------------------------------- */

static char head[2 * NAME_BYTES_MAX];   /* of the command, up to the first value's length */
static int head_len;

static void write_head(void) {
  char key[NAME_BYTES_MAX];
  name_topic(key, 0);
  head_len = snprintf(head, sizeof head, "*%d\r\n$4\r\nXADD\r\n$%zu\r\n%s\r\n$1\r\n*\r\n",
                      3 + 2 * FIELDS, strlen(key), key);
}

static char *put_bulk(char *at, const char *bytes, int len) {
  *at++ = '$';
  at = put_words(put_decimal(at, len), "\r\n");
  memcpy(at, bytes, len);
  return put_words(at + len, "\r\n");
}

void put_fields(conn *c) {
  reading r;
  char command[sizeof head + FIELDS * (VALUE_BYTES_MAX + 32)];
  if (!head_len) write_head();
  read_sensors(&r, c->id, c->sequence);
  memcpy(command, head, head_len);
  char *at = command + head_len;
  for (int k = 0; k < FIELDS; k++) {
    at = put_bulk(at, names[k], strlen(names[k]));
    at = put_bulk(at, r.text[k], r.len[k]);
  }
  memcpy(reserve(c, at - command), command, at - command);
}

/* ---- Receiving ------------------------------------------------------------------------------ */

static bool is_reading(const u8 *const *bytes, const size_t *len, const reading *r) {
  for (int k = 0; k < FIELDS; k++) {
    if (len[2 * k] != strlen(names[k]) || memcmp(bytes[2 * k], names[k], len[2 * k])) return false;
    if (len[2 * k + 1] != (size_t)r->len[k]) return false;
    if (memcmp(bytes[2 * k + 1], r->text[k], r->len[k])) return false;
  }
  return true;
}

/* Names and values, in turn; a stamp with the number of the entry, or with one that nobody has. */
void stamp_of_fields(const u8 *const *bytes, const size_t *len, int count, u8 *stamp) {
  put_stamp(stamp, 0, UINT32_MAX, 0);
  if (count != 2 * FIELDS || len[count - 1] >= VALUE_BYTES_MAX) return;
  char state[VALUE_BYTES_MAX] = "";
  memcpy(state, bytes[count - 1], len[count - 1]);
  char *space = strrchr(state, ' '), *slash = strchr(state, '/');
  if (!space || !slash) return;
  u32 id = strtoul(space + 1, NULL, 10), sequence = strtoul(slash + 1, NULL, 10);
  reading r;
  read_sensors(&r, id, sequence);
  if (is_reading(bytes, len, &r)) put_stamp(stamp, 0, id, sequence);
}
