/* RESP2, as Redis speaks it: PUBLISH to SUBSCRIBE (resp-pubsub), and XADD (xadd).
 *
 * A reply to PUBLISH must be the number of our subscribers. Replies to XADD must be ids that rise;
 * when the run is over, the stream is read from end to end (XRANGE), and what is in it is counted
 * as deliveries are.
 */
#include "mqload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Sending -------------------------------------------------------------------------------- */

static void put_command(conn *c, int arguments, const char *const *argument) {
  char text[NAME_BYTES_MAX * 4];
  int len = snprintf(text, sizeof text, "*%d\r\n", arguments);
  for (int i = 0; i < arguments; i++)
    len += snprintf(text + len, sizeof text - len, "$%zu\r\n%s\r\n", strlen(argument[i]),
                    argument[i]);
  memcpy(reserve(c, len), text, len);
}

static void greet(conn *c) { put_command(c, 1, (const char *[]){"PING"}); }

static void subscribe(conn *c, const char *topic) {
  put_command(c, 2, (const char *[]){"SUBSCRIBE", topic});
}

static frame end_with_payload(u8 *bytes, int payload_at, int payload) {
  fill_payload(bytes + payload_at, payload);
  memcpy(bytes + payload_at + payload, "\r\n", 2);
  return (frame){.bytes = bytes, .len = payload_at + payload + 2, .payload_at = payload_at};
}

static frame build_publish(const char *topic, int payload) {
  u8 *bytes = zeroed(1, payload + 2 * NAME_BYTES_MAX);
  int len = sprintf((char *)bytes, "*3\r\n$7\r\nPUBLISH\r\n$%zu\r\n%s\r\n$%d\r\n", strlen(topic),
                    topic, payload);
  return end_with_payload(bytes, len, payload);
}

static frame build_xadd(const char *topic, int payload) {
  u8 *bytes = zeroed(1, payload + 2 * NAME_BYTES_MAX);
  const char *shape = "*5\r\n$4\r\nXADD\r\n$%zu\r\n%s\r\n$1\r\n*\r\n$7\r\npayload\r\n$%d\r\n";
  int len = sprintf((char *)bytes, shape, strlen(topic), topic, payload);
  return end_with_payload(bytes, len, payload);
}

/* ---- Receiving ------------------------------------------------------------------------------ */

static long number_at(const u8 *at) {  /* the number behind the type byte */
  bool negative = *++at == '-';
  long value = 0;
  for (at += negative; *at >= '0' && *at <= '9'; at++) value = value * 10 + (*at - '0');
  return negative ? -value : value;
}

static const u8 *line_end(const u8 *at, const u8 *end) {
  const u8 *newline = memchr(at, '\n', end - at);
  return newline ? newline + 1 : NULL;
}

static const u8 *value_end(const u8 *at, const u8 *end) {  /* NULL if it is not all there */
  const u8 *next = at < end ? line_end(at, end) : NULL;
  if (!next || (*at != '$' && *at != '*')) return next;
  long n = number_at(at);
  if (*at == '$') return n < 0 ? next : end - next >= n + 2 ? next + n + 2 : NULL;
  for (; n > 0 && next; n--) next = value_end(next, end);
  return next;
}

static const u8 *bulk(const u8 *at, size_t *len) {  /* the bytes of a whole bulk string */
  if (*at != '$') fail(EXIT_CUT_OFF, "expected a bulk string, not %.20s", at);
  *len = number_at(at);
  return (const u8 *)memchr(at, '\n', 24) + 1;
}

static void on_id(conn *c, const u8 *value) {
  size_t len;
  char *dash;
  u64 milliseconds = strtoull((const char *)bulk(value, &len), &dash, 10);
  if (*dash != '-') fail(EXIT_CUT_OFF, "XADD was answered with no id: %.20s", value);
  count_id(c, milliseconds, strtoull(dash + 1, NULL, 10));
}

static void on_publisher_reply(conn *c, const u8 *value, u64 now) {
  if (*value == '$')
    on_id(c, value);
  else if (*value != ':' || number_at(value) != opt.subscribers)
    fail(EXIT_CUT_OFF, "PUBLISH reached %ld subscribers of %d", number_at(value), opt.subscribers);
  count_reply(c, now);
}

static void on_push(conn *c, const u8 *value, const u8 *end, u64 now) {
  size_t len;
  const u8 *kind = line_end(value, end), *topic = value_end(kind, end);
  const u8 *word = bulk(kind, &len);
  if (len == 9 && !memcmp(word, "subscribe", 9)) {
    c->subacks_due--;
  } else if (len == 7 && !memcmp(word, "message", 7)) {
    const u8 *payload = bulk(value_end(topic, end), &len);
    count_delivery(c, payload, len, now);
  } else {
    fail(EXIT_CUT_OFF, "a subscriber was sent %.*s", (int)len, word);
  }
}

static bool page_was_last;
static char next_page[64];

static void on_page(conn *c, const u8 *value, const u8 *end) {  /* entries: [id, [field, value]] */
  size_t len;
  long entries = number_at(value);
  const u8 *at = line_end(value, end);
  for (long i = 0; i < entries; i++) {
    const u8 *id = line_end(at, end), *fields = value_end(id, end);
    const u8 *name = line_end(fields, end);
    snprintf(next_page, sizeof next_page, "(%.*s", (int)number_at(id), bulk(id, &len));
    const u8 *payload = bulk(value_end(name, end), &len);
    count_delivery(c, payload, len, 0);
    at = value_end(at, end);
  }
  page_was_last = entries < PAGE_ENTRIES;
  c->subacks_due--;
}

static void on_value(conn *c, const u8 *value, const u8 *end, u64 now) {
  if (*value == '-') fail(EXIT_REFUSED, "%.*s", (int)(end - value - 2), value + 1);
  if (*value == '+') c->ready = true;
  else if (c->role == PUBLISHER) on_publisher_reply(c, value, now);
  else if (c->role == AUDITOR) on_page(c, value, end);
  else on_push(c, value, end, now);
}

static size_t parse(conn *c, u64 now) {
  const u8 *at = c->in, *end = c->in + c->in_len;
  for (const u8 *next; (next = value_end(at, end)); at = next) on_value(c, at, next, now);
  return at - c->in;
}

/* ---- Looking at what was kept --------------------------------------------------------------- */

static void read_stream(void) {
  conn *auditor = zeroed(1, sizeof *auditor);
  char key[NAME_BYTES_MAX], page[16];
  name_topic(key, 0);
  snprintf(page, sizeof page, "%d", PAGE_ENTRIES);
  open_conn(auditor, AUDITOR, 0);
  strcpy(next_page, "-");
  do {
    put_command(auditor, 6, (const char *[]){"XRANGE", key, next_page, "+", "COUNT", page});
    auditor->subacks_due++;
    settle(auditor);
  } while (!page_was_last);
}

const protocol RESP_PUBSUB = {
    .name = "resp-pubsub", .answers = true, .window = 1000, .subscribers = 1, .greet = greet,
    .subscribe = subscribe, .build = build_publish, .parse = parse};

const protocol XADD = {
    .name = "xadd", .answers = true, .window = 32, .greet = greet, .subscribe = subscribe,
    .build = build_xadd, .parse = parse, .audit = read_stream};
