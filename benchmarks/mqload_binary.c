/* The binary protocol, version 1: PUBLISH and its ACK, MESSAGE and, if asked for, its ACK.
 *
 *   0 version | 1 command | 2 sequence u64 | 10 topic bytes u16 | 12 payload bytes u32 | 16 topic,
 *   payload | signature (64), key id u32: behind signed commands only. Numbers are big-endian.
 *
 * Publishes are numbered 1, 2, 3 ... on each connection, and their ACKs must come in that order.
 * When the run is over, an auditor subscribes: without a client id it must be sent everything that
 * was acknowledged to the publishers; with the id of a subscriber that acknowledged everything it
 * must be sent nothing. Signed messages must come with the signature that they were sent with.
 *
 * With -y a connection begins with HELLO, a client id and an epoch: the broker then recognises
 * repetitions by the numbers. WELCOME must grant that.
 */
#include "mqload.h"

#include <stdio.h>
#include <string.h>

enum { HEADER_BYTES = 16, TRAILER_BYTES = 68, VERSION = 1 };
enum command {
  SUBSCRIBE = 0x01, PUBLISH = 0x03, MESSAGE, ACK, PING, PONG, ERROR, SIGNED_PUBLISH = 0x10,
  SIGNED_MESSAGE, HELLO = 0x20, WELCOME
};
enum { FEATURES = 1, EPOCH = 4, OPTION_BYTES = 3, NUMBERED = 2 };

/* ---- Sending -------------------------------------------------------------------------------- */

static void put_number(u8 *at, int bytes, u64 value) {
  for (; bytes--; value >>= 8) at[bytes] = value;
}

static u64 number_at(const u8 *at, int bytes) {
  u64 value = 0;
  while (bytes--) value = value << 8 | *at++;
  return value;
}

static u8 *put_header(u8 *at, u8 command, u64 sequence, int topic, int payload) {
  at[0] = VERSION;
  at[1] = command;
  put_number(at + 2, 8, sequence);
  put_number(at + 10, 2, topic);
  put_number(at + 12, 4, payload);
  return at + HEADER_BYTES;
}

static void put_bare(conn *c, u8 command, u64 sequence) {
  put_header(reserve(c, HEADER_BYTES), command, sequence, 0, 0);
}

static u8 *put_option(u8 *at, int type, int bytes, u64 value) {
  at[0] = type;
  put_number(at + 1, 2, bytes);
  put_number(at + OPTION_BYTES, bytes, value);
  return at + OPTION_BYTES + bytes;
}

static void greet(conn *c) {
  if (!opt.producer_ids || c->role != PUBLISHER) {
    put_bare(c, PING, 0);
    return;
  }
  char id[NAME_BYTES_MAX];
  int len = snprintf(id, sizeof id, "publisher-%d", c->id);
  int options = 2 * OPTION_BYTES + 4 + 8;
  u8 *at = put_header(reserve(c, HEADER_BYTES + len + options), HELLO, 0, len, options);
  memcpy(at, id, len);
  put_option(put_option(at + len, FEATURES, 4, NUMBERED), EPOCH, 8, now_ns());
}

static void subscribe(conn *c, const char *topic) {
  char name[2 * NAME_BYTES_MAX];
  int id = opt.acknowledge ? snprintf(name, sizeof name, "subscriber-%d", c->id) + 1 : 0;
  int len = id + snprintf(name + id, sizeof name - id, "%s", topic);
  memcpy(put_header(reserve(c, HEADER_BYTES + len), SUBSCRIBE, 1, len, 0), name, len);
}

static frame build(const char *topic, int payload) {
  int name = strlen(topic), payload_at = HEADER_BYTES + name;
  u8 *bytes = zeroed(1, payload_at + payload);
  memcpy(put_header(bytes, PUBLISH, 0, name, payload), topic, name);
  fill_payload(bytes + payload_at, payload);
  return (frame){.bytes = bytes, .len = payload_at + payload, .payload_at = payload_at,
                 .payload = payload};
}

static void number(conn *c, u8 *bytes, int payload_at) {
  (void)payload_at;
  put_number(bytes + 2, 8, (u64)c->sequence + 1);
}

/* ---- Receiving ------------------------------------------------------------------------------ */

typedef struct { u8 command; u64 sequence; const u8 *payload; u32 len; size_t whole; } received;

static bool read_frame(const u8 *at, size_t len, received *f) {
  if (len < HEADER_BYTES) return false;
  if (*at != VERSION) fail(EXIT_CUT_OFF, "a frame of version %d", *at);
  size_t topic = number_at(at + 10, 2);
  *f = (received){at[1], number_at(at + 2, 8), at + HEADER_BYTES + topic, number_at(at + 12, 4), 0};
  f->whole = HEADER_BYTES + topic + f->len + (f->command == SIGNED_MESSAGE ? TRAILER_BYTES : 0);
  return len >= f->whole;
}

static void on_ack(conn *c, u64 sequence, u64 now) {
  if (c->role != PUBLISHER) {
    c->subacks_due--;
    return;
  }
  if (sequence != c->answered + 1) sum.reordered++;
  count_reply(c, now);
}

static void check_signature(const received *f) {
  u32 sequence = UINT32_MAX;
  if (f->len >= PAYLOAD_BYTES_MIN) memcpy(&sequence, f->payload + 12, 4);
  if (sequence >= sum.sent) return;  /* count_delivery will see */
  const frame *sent = frames + sequence;
  size_t len = sent->len - sent->payload_at;
  if (f->len + TRAILER_BYTES != len || memcmp(f->payload, sent->bytes + sent->payload_at, len))
    sum.damaged++;
}

static void on_message(conn *c, const received *f, u64 now) {
  count_id(c, f->sequence, 0);  /* also rises during a replay: an auditor reads one topic */
  if (c->role == AUDITOR && opt.acknowledge) {
    sum.replayed++;
    return;
  }
  if (f->command == SIGNED_MESSAGE) check_signature(f);
  count_delivery(c, f->payload, f->len, now);
  if (opt.acknowledge) put_bare(c, ACK, f->sequence);
}

/* Fields in any order; without the one of features none was granted. */
static bool is_numbered(const received *f) {
  u64 granted = 0;
  for (u32 at = 0; at + OPTION_BYTES <= f->len; at += OPTION_BYTES + number_at(f->payload + at + 1, 2))
    if (f->payload[at] == FEATURES && at + OPTION_BYTES + 4 <= f->len)
      granted = number_at(f->payload + at + OPTION_BYTES, 4);
  return granted & NUMBERED;
}

static void on_welcome(conn *c, const received *f) {
  if (!is_numbered(f)) fail(EXIT_REFUSED, "the broker does not number publishes");
  c->ready = true;
}

static void on_frame(conn *c, const received *f, u64 now) {
  switch (f->command) {
    case PONG: c->ready = true; break;
    case WELCOME: on_welcome(c, f); break;
    case ACK: on_ack(c, f->sequence, now); break;
    case MESSAGE:
    case SIGNED_MESSAGE: on_message(c, f, now); break;
    case ERROR: fail(EXIT_REFUSED, "%.*s", (int)f->len, f->payload);
    default: fail(EXIT_CUT_OFF, "a frame with command 0x%02x", f->command);
  }
}

static size_t parse(conn *c, u64 now) {
  size_t at = 0;
  received f;
  for (; read_frame(c->in + at, c->in_len - at, &f); at += f.whole) on_frame(c, &f, now);
  return at;
}

/* ---- Looking at what was kept --------------------------------------------------------------- */

static conn *open_auditor(int id, int of) {
  char topic[NAME_BYTES_MAX];
  conn *auditor = zeroed(1, sizeof *auditor);
  open_conn(auditor, AUDITOR, id);
  name_topic(topic, of);
  subscribe_to(auditor, topic);
  settle(auditor);
  return auditor;
}

static void read_topic(void) {  /* the replay may come before the ACK of SUBSCRIBE, or after */
  u64 seen = 0, progress = now_ns();
  for (int topic = 1; topic < opt.topics; topic++) open_auditor(topic, topic);
  for (open_auditor(0, 0); sum.stored < sum.acked; pump(5)) {
    if (sum.stored != seen) progress = now_ns();
    if (now_ns() - progress > (u64)(opt.drain * 1e9)) break;
    seen = sum.stored;
  }
}

static void ping(conn *c) {
  c->ready = false;
  put_bare(c, PING, 0);
  settle(c);
}

/* A PONG tells that the broker has seen the acknowledgements that went before the PING. */
static void read_unacknowledged(void) {
  for (int i = 0; opt.acknowledge && i < opt.subscribers; i++) {
    ping(subscribers + i);
    close_conn(subscribers + i);  /* or the broker would close it: the client id is taken over */
    ping(open_auditor(i, 0));
  }
}

/* ---- Frames signed beforehand --------------------------------------------------------------- */

static u8 *read_file(const char *path, size_t *len) {
  FILE *file = path ? fopen(path, "rb") : NULL;
  if (!file || fseek(file, 0, SEEK_END)) fail(EXIT_USAGE, "-f FILE is needed, and must be there");
  *len = ftell(file);
  rewind(file);
  u8 *bytes = zeroed(1, *len);
  if (fread(bytes, 1, *len, file) != *len) fail(EXIT_USAGE, "%s cannot be read", path);
  fclose(file);
  return bytes;
}

static void load_frames(void) {
  char name[NAME_BYTES_MAX];
  size_t len, count = 0, most = 0;
  u8 *bytes = read_file(opt.frames, &len);
  name_topic(name, 0);
  for (size_t at = 0, topic, payload, whole; at < len; at += whole) {
    if (len - at < HEADER_BYTES) fail(EXIT_USAGE, "%s ends within a frame", opt.frames);
    topic = number_at(bytes + at + 10, 2);
    payload = number_at(bytes + at + 12, 4);
    whole = HEADER_BYTES + topic + payload + TRAILER_BYTES;
    if (whole > len - at || bytes[at + 1] != SIGNED_PUBLISH || topic != strlen(name) ||
        memcmp(bytes + at + HEADER_BYTES, name, topic))
      fail(EXIT_USAGE, "%s must hold signed publishes to %s, and nothing else", opt.frames, name);
    if (count == most) frames = grown(frames, (most = most * 2 + 64) * sizeof *frames);
    frames[count++] = (frame){
        .bytes = bytes + at, .len = whole, .payload_at = HEADER_BYTES + topic};
    if ((int)payload > opt.payload_max) opt.payload_max = payload;
    if ((int)payload < opt.payload_min) opt.payload_min = payload;
  }
  if (!opt.messages || opt.messages > count) opt.messages = count;
}

const protocol BINARY_PUBLISH = {
    .name = "binary-publish", .answers = true, .window = 32, .greet = greet,
    .subscribe = subscribe, .build = build, .number = number, .parse = parse, .audit = read_topic};

const protocol BINARY_SUBSCRIBE = {
    .name = "binary-subscribe", .wildcard = "%s/#", .answers = true, .window = 256,
    .subscribers = 1, .greet = greet, .subscribe = subscribe, .build = build, .number = number,
    .parse = parse, .audit = read_unacknowledged};

const protocol BINARY_SIGNED = {
    .name = "binary-signed", .answers = true, .window = 256, .greet = greet,
    .subscribe = subscribe, .load = load_frames, .number = number, .parse = parse,
    .audit = read_topic};
