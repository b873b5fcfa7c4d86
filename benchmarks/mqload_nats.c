/* NATS, core: CONNECT, then PUB to SUB. Lines end in CR LF; a payload follows its line.
 *
 *   INFO {...}                               by the broker, first of all
 *   CONNECT {...}   SUB subject sid   PUB subject bytes   PING   by the client
 *   MSG subject sid [reply] bytes     PONG   PING   -ERR text    by the broker
 *
 * Nothing but PING is answered: the first PONG means that the connection is ready, each further one
 * that a subscription is there.
 */
#include "mqload.h"

#include <stdio.h>
#include <string.h>

static void put_line(conn *c, const char *line) {
  size_t len = strlen(line);
  memcpy(reserve(c, len), line, len);
}

static void greet(conn *c) {
  put_line(c, "CONNECT {\"verbose\":false,\"pedantic\":false,\"name\":\"mqload\",\"lang\":\"c\","
              "\"version\":\"1\",\"protocol\":1}\r\nPING\r\n");
}

static void subscribe(conn *c, const char *subject) {
  char line[2 * NAME_BYTES_MAX];
  snprintf(line, sizeof line, "SUB %s %d\r\nPING\r\n", subject, c->subacks_due + 1);
  put_line(c, line);
}

static frame build(const char *subject, int payload) {
  u8 *bytes = zeroed(1, payload + 2 * NAME_BYTES_MAX);
  int at = sprintf((char *)bytes, "PUB %s %d\r\n", subject, payload);
  fill_payload(bytes + at, payload);
  memcpy(bytes + at + payload, "\r\n", 2);
  return (frame){.bytes = bytes, .len = at + payload + 2, .payload_at = at, .payload = payload};
}

static size_t bytes_told(const u8 *line, const u8 *end) {  /* the last word of a MSG line */
  size_t value = 0, unit = 1;
  for (const u8 *at = end - 1; at > line && *at >= '0' && *at <= '9'; at--, unit *= 10)
    value += (*at - '0') * unit;
  return value;
}

static void on_line(conn *c, const u8 *line, size_t len) {
  if (len == 4 && !memcmp(line, "PONG", 4)) {
    if (c->ready) c->subacks_due--;
    c->ready = true;
  } else if (len == 4 && !memcmp(line, "PING", 4)) {
    put_line(c, "PONG\r\n");
  } else if (len < 4 || memcmp(line, "INFO", 4)) {
    fail(EXIT_REFUSED, "the broker said %.*s", (int)len, line);
  }
}

static size_t parse(conn *c, u64 now) {
  const u8 *at = c->in, *end = c->in + c->in_len, *newline;
  while ((newline = memchr(at, '\n', end - at))) {
    const u8 *next = newline + 1, *line_end = newline - (newline > at && newline[-1] == '\r');
    if (line_end - at > 4 && !memcmp(at, "MSG ", 4)) {
      size_t len = bytes_told(at, line_end);
      if ((size_t)(end - next) < len + 2) break;
      count_delivery(c, next, len, now);
      next += len + 2;
    } else {
      on_line(c, at, line_end - at);
    }
    at = next;
  }
  return at - c->in;
}

const protocol NATS = {
    .name = "nats", .wildcard = "%s.>", .separator = '.', .window = 1000, .subscribers = 1,
    .greet = greet, .subscribe = subscribe, .build = build, .parse = parse};
