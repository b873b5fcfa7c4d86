/* MQTT 3.1.1 or 5 (-V 5): CONNECT with a clean session, PUBLISH at any QoS, and the packets that
 * follow. With -U every PUBLISH has user properties; all values but the first change with every
 * message, as those of real devices do: a broker that recognises blocks it has seen gains nothing. */
#include "mqload.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum packet { CONNECT = 1, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK };

enum { VALUE_BYTES = 16 };

static int properties_len;  /* of a PUBLISH, with their length in front; 0: MQTT 3.1.1 */

/* ---- Sending -------------------------------------------------------------------------------- */

static int put_length(u8 *at, u32 n) {
  int bytes = 0;
  do {
    at[bytes++] = (n & 127) | (n > 127 ? 128 : 0);
    n >>= 7;
  } while (n);
  return bytes;
}

static int put_string(u8 *at, const char *text) {
  int len = strlen(text);
  at[0] = len >> 8;
  at[1] = len;
  memcpy(at + 2, text, len);
  return 2 + len;
}

static void greet(conn *c) {
  static const char letter[] = {'p', 's', 'b', 'a'};
  char client_id[24];
  u8 body[64] = "\0\4MQTT\4\2\0\0";  /* level 4, clean session, no keep-alive */
  snprintf(client_id, sizeof client_id, "%c%d-%d", letter[c->role], (int)getpid(), c->id);
  body[6] = opt.version;
  int len = opt.version > 4 ? 11 : 10;  /* no properties */
  len += put_string(body + len, client_id);
  u8 *out = reserve(c, 2 + len);
  out[0] = CONNECT << 4;
  out[1] = len;
  memcpy(out + 2, body, len);
}

static void subscribe(conn *c, const char *filter) {
  u8 packet[128] = {SUBSCRIBE << 4 | 2};
  int packet_id = c->subacks_due % 65535 + 1, at = 1;
  at += put_length(packet + at, 2 + (opt.version > 4) + 2 + strlen(filter) + 1);
  packet[at++] = packet_id >> 8;
  packet[at++] = packet_id;
  if (opt.version > 4) packet[at++] = 0;
  at += put_string(packet + at, filter);
  packet[at++] = opt.qos;
  memcpy(reserve(c, at), packet, at);
}

static void put_ack(conn *c, u8 header, const u8 *packet_id) {
  u8 *out = reserve(c, 4);
  out[0] = header;
  out[1] = 2;
  memcpy(out + 2, packet_id, 2);
}

/* Properties with their length in front; each value has VALUE_BYTES, so that it can be replaced. */
static int put_properties(u8 *at) {
  u8 block[4096];
  int len = 0;
  for (int k = 0; k < opt.user_properties; k++) {
    char name[16], value[VALUE_BYTES + 1];
    snprintf(name, sizeof name, "property-%d", k % 10);
    snprintf(value, sizeof value, "value-%010d", k);
    block[len++] = 0x26;
    len += put_string(block + len, name);
    len += put_string(block + len, value);
  }
  int digits = put_length(at, len);
  memcpy(at + digits, block, len);
  return digits + len;
}

static frame build(const char *topic, int payload) {
  u8 properties[4096];
  properties_len = opt.version > 4 ? put_properties(properties) : 0;
  frame f = {.bytes = zeroed(1, payload + 128 + properties_len), .payload = payload};
  int variable = 2 + strlen(topic) + (opt.qos ? 2 : 0) + properties_len;
  f.bytes[0] = PUBLISH << 4 | opt.qos << 1;
  f.len = 1 + put_length(f.bytes + 1, variable + payload);
  f.len += put_string(f.bytes + f.len, topic);
  f.len += opt.qos ? 2 : 0;
  memcpy(f.bytes + f.len, properties, properties_len);
  f.payload_at = f.len += properties_len;
  fill_payload(f.bytes + f.payload_at, payload);
  f.len += payload;
  return f;
}

static void vary_properties(const conn *c, u8 *end) {
  static const char digits[] = "0123456789abcdef";
  int each = properties_len / opt.user_properties;   /* a length of one or two bytes beside it */
  for (int k = 0; k < opt.user_properties - 1; k++) {
    u64 value = (c->sequence + 1) * 0x9e3779b97f4a7c15ull * (k + 1);
    for (int at = 1; at <= VALUE_BYTES; at++, value >>= 4) end[-k * each - at] = digits[value & 15];
  }
}

static void number(conn *c, u8 *bytes, int payload_at) {
  if (opt.user_properties > 1) vary_properties(c, bytes + payload_at);
  if (!opt.qos) return;
  if (!++c->packet_id) c->packet_id = 1;
  bytes[payload_at - properties_len - 2] = c->packet_id >> 8;
  bytes[payload_at - properties_len - 1] = c->packet_id;
}

/* ---- Receiving ------------------------------------------------------------------------------ */

static void on_publish(conn *c, u8 header, const u8 *body, size_t len, u64 now) {
  int qos = header >> 1 & 3;
  size_t at = 2 + (body[0] << 8 | body[1]);
  if (qos) {
    put_ack(c, (qos == 1 ? PUBACK : PUBREC) << 4, body + at);
    at += 2;
  }
  if (opt.version > 4) {
    size_t block = 0;
    for (int shift = 0;; shift += 7) {
      block |= (size_t)(body[at] & 127) << shift;
      if (body[at++] < 128) break;
    }
    if (opt.user_properties && block + 2 < (size_t)properties_len)
      fail(EXIT_LOSS, "a PUBLISH without its properties");
    at += block;
  }
  if (c->role == SUBSCRIBER) count_delivery(c, body + at, len - at, now);
}

static void on_packet(conn *c, u8 header, const u8 *body, size_t len, u64 now) {
  switch (header >> 4) {
    case CONNACK:
      if (body[1]) fail(EXIT_REFUSED, "CONNACK with return code %d", body[1]);
      c->ready = true;
      break;
    case SUBACK:
      if (body[len - 1] >= 0x80) fail(EXIT_REFUSED, "SUBACK with return code %d", body[len - 1]);
      c->subacks_due--;
      break;
    case PUBLISH: on_publish(c, header, body, len, now); break;
    case PUBREC: put_ack(c, PUBREL << 4 | 2, body); break;
    case PUBREL: put_ack(c, PUBCOMP << 4, body); break;
    case PUBACK:
    case PUBCOMP: count_reply(c, now); break;
  }
}

static size_t parse(conn *c, u64 now) {
  size_t at = 0;
  for (;;) {
    size_t body = at + 1, len = 0;
    for (int shift = 0;; shift += 7) {
      if (body >= c->in_len || shift > 21) return at;
      u8 digit = c->in[body++];
      len |= (size_t)(digit & 127) << shift;
      if (digit < 128) break;
    }
    if (c->in_len - body < len) return at;
    on_packet(c, c->in[at], c->in + body, len, now);
    at = body + len;
  }
}

const protocol MQTT = {
    .name = "mqtt", .wildcard = "%s/#", .window = 100, .subscribers = 1, .greet = greet,
    .subscribe = subscribe, .build = build, .number = number, .parse = parse};
