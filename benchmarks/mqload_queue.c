/* The queue protocol: u32 length, big-endian, then one protobuf message, Request or Response.
 *
 *   Request   1 Produce   2 Poll     3 Ack   8 Stats   12 Subscribe
 *             16 ProduceMany   17 AckMany    20 Fetch
 *   Response  1 Produced  2 Polled   3 Ok    4 Error    5 StatsResult
 *             16 ProducedMany  17 Fetched
 *
 * Frames of produces are made beforehand, but for stamps and numbers. Offsets that a publisher is
 * told must rise. When produces were all that was measured, an auditor fetches everything that was
 * answered; when jobs were, Stats must say that none is in flight.
 */
#include "mqload.h"

#include <stdio.h>
#include <string.h>

enum { PRODUCE = 1, POLL, ACK, STATS = 8, SUBSCRIBE = 12, PRODUCE_MANY = 16, ACK_MANY,
       FETCH = 20 };
enum { PRODUCED = 1, POLLED, OK, ERROR, STATS_RESULT, PRODUCED_MANY = 16, FETCHED };
enum { LENGTH_BYTES = 4, VISIBILITY_MS = 600000 };

/* Numbers from here on take five bytes each, so that frames of any number have the same length. */
static const u64 FIRST_SEQ = 1ull << 28;

/* ---- Protobuf ------------------------------------------------------------------------------- */

static u8 *put_varint(u8 *at, u64 value) {
  for (; value > 127; value >>= 7) *at++ = value | 128;
  *at++ = value;
  return at;
}

static u8 *put_number(u8 *at, int field, u64 value) {  /* zero is not written */
  return value ? put_varint(put_varint(at, field << 3), value) : at;
}

static u8 *put_span(u8 *at, int field, size_t len) {   /* what is before the bytes */
  return put_varint(put_varint(at, field << 3 | 2), len);
}

static u8 *put_text(u8 *at, int field, const char *text) {
  size_t len = strlen(text);
  return (u8 *)memcpy(put_span(at, field, len), text, len) + len;
}

static u8 *put_head(u8 *at, int kind, size_t body) {   /* all that stands before the body */
  u8 inner[16];
  size_t head = put_span(inner, kind, body) - inner;
  for (int k = 0; k < LENGTH_BYTES; k++) *at++ = (head + body) >> (24 - 8 * k);
  return (u8 *)memcpy(at, inner, head) + head;
}

static void put_request(conn *c, int kind, const u8 *body, size_t len) {
  u8 head[16];
  size_t before = put_head(head, kind, len) - head;
  memcpy(reserve(c, before), head, before);
  if (len) memcpy(reserve(c, len), body, len);
}

typedef struct { const u8 *at, *end; } span;
typedef struct { u32 number; u64 value; span bytes; } field;

static u64 varint(span *s) {
  u64 value = 0;
  for (int shift = 0; s->at < s->end && shift < 64; shift += 7) {
    u8 byte = *s->at++;
    value |= (u64)(byte & 127) << shift;
    if (byte < 128) return value;
  }
  fail(EXIT_CUT_OFF, "a number has no end");
}

static bool next_field(span *s, field *f) {
  if (s->at >= s->end) return false;
  u64 tag = varint(s);
  *f = (field){.number = tag >> 3, .value = varint(s)};
  if ((tag & 7) == 2) {
    if (f->value > (u64)(s->end - s->at)) fail(EXIT_CUT_OFF, "a field is longer than its message");
    f->bytes = (span){s->at, s->at + f->value};
    s->at += f->value;
  } else if (tag & 7) {
    fail(EXIT_CUT_OFF, "a field of wire type %d", (int)(tag & 7));
  }
  return true;
}

/* ---- Requests ------------------------------------------------------------------------------- */

static void greet(conn *c) { put_request(c, STATS, NULL, 0); }

static u8 *put_names(u8 *at, const conn *c) {  /* topic and group; subscribers have one each */
  char topic[NAME_BYTES_MAX], group[NAME_BYTES_MAX] = "g";
  name_topic(topic, 0);
  if (c->role == SUBSCRIBER) snprintf(group, sizeof group, "g%d", c->id);
  return put_text(put_text(at, 1, topic), 2, group);
}

static void ask_for_jobs(conn *c, int kind, int most) {
  u8 body[4 * NAME_BYTES_MAX];
  u8 *end = put_number(put_number(put_names(body, c), 3, most), 4, VISIBILITY_MS);
  end = put_text(end, 5, "manual");
  put_request(c, kind, body, end - body);
}

static void poll_jobs(conn *c, int most) { ask_for_jobs(c, POLL, most); }

static void push_jobs(conn *c, int most) { ask_for_jobs(c, SUBSCRIBE, most); }

static void subscribe(conn *c, const char *topic) {  /* one topic, and no answer to wait for */
  (void)topic;
  push_jobs(c, opt.jobs);
  c->subacks_due--;
}

static void settle_jobs(conn *c, const job *jobs, int count) {
  u8 body[4 * NAME_BYTES_MAX + 10 * JOBS_MAX], leases[10 * JOBS_MAX], *end = put_names(body, c);
  if (count == 1) {
    end = put_number(end, 3, jobs->high);
  } else {
    u8 *last = leases;
    for (int k = 0; k < count; k++) last = put_varint(last, jobs[k].high);
    end = put_span(end, 3, last - leases);
    end = (u8 *)memcpy(end, leases, last - leases) + (last - leases);
  }
  put_request(c, count == 1 ? ACK : ACK_MANY, body, end - body);
}

/* topic, payloads, producer id and number; the last two are filled in for each frame */
static frame build(const char *topic, int payload) {
  int many = opt.per_frame > 1, stride = payload + 8;
  u8 *body = zeroed(1, NAME_BYTES_MAX + (size_t)opt.per_frame * stride + 32);
  u8 *at = put_text(body, 1, topic), *first = NULL;
  for (int k = 0; k < opt.per_frame; k++) {
    u8 *start = put_span(at, 4, payload);
    fill_payload(start, payload);
    stride = start + payload - at;
    at = start + payload;
    if (!first) first = start;
  }
  if (opt.producer_ids) at = put_number(put_text(at, 5, "p0000"), 6, FIRST_SEQ);
  size_t len = at - body;
  u8 *bytes = zeroed(1, len + 16), *begin = put_head(bytes, many ? PRODUCE_MANY : PRODUCE, len);
  memcpy(begin, body, len);
  return (frame){.bytes = bytes, .len = begin + len - bytes, .payload = payload,
                 .payload_at = begin - bytes + (first - body), .stride = stride};
}

static void number(conn *c, u8 *bytes, int payload_at) {
  if (!opt.producer_ids) return;
  u8 *end = bytes + payload_at + (opt.per_frame - 1) * frames->stride + opt.payload_max;
  char name[16];
  snprintf(name, sizeof name, "p%04u", c->id % 10000u);
  put_number(put_text(end, 5, name), 6, FIRST_SEQ + c->sequence);
}

/* ---- Responses ------------------------------------------------------------------------------ */

static u64 in_flight;              /* as Stats had it last */
static u64 next_offset, end_offset;  /* as Fetched had them last */

static void on_produced(conn *c, span message, u64 now) {
  field f = {0};
  u64 offset = next_field(&message, &f) && f.number == 1 ? f.value : 0;
  count_id(c, offset + 1, 0);
  count_reply(c, now);
}

static void on_stretch(conn *c, span stretch, u64 *count) {
  u64 offset = 0, length = 0;
  for (field f; next_field(&stretch, &f);) *(f.number == 1 ? &offset : &length) = f.value;
  count_id(c, offset + 1, 0);
  c->last_id[0] = offset + length;
  *count += length;
}

static void on_produced_many(conn *c, span message, u64 now) {
  u64 count = 0;
  for (field f; next_field(&message, &f);) {
    if (f.number != 1) fail(EXIT_REFUSED, "a message of a batch was refused");
    on_stretch(c, f.bytes, &count);
  }
  if (count != (u64)opt.per_frame) sum.damaged++;
  count_reply(c, now);
}

static void on_item(conn *c, span item, u64 now) {
  job id = {0, 0};
  span payload = {NULL, NULL};
  for (field f; next_field(&item, &f);) {
    if (f.number == 1) id.high = f.value;
    if (f.number == 5) payload = f.bytes;
  }
  size_t len = payload.end - payload.at;
  if (c->role == CONSUMER || c->role == HOLDER) {
    on_job(c, id, payload.at, len);
    return;
  }
  count_delivery(c, payload.at, len, now);
  if (c->role == SUBSCRIBER) settle_jobs(c, &id, 1);
}

static void on_polled(conn *c, span message, u64 now) {
  for (field f; next_field(&message, &f);) on_item(c, f.bytes, now);
  if (c->role == CONSUMER || c->role == HOLDER) on_batch_end(c);
}

static u32 bound_at(span bounds, u64 k) {  /* u32, little-endian; only differences count */
  const u8 *at = bounds.at + 4 * k;
  if (at + 4 > bounds.end) fail(EXIT_CUT_OFF, "a slice with too few bounds");
  return (u32)at[3] << 24 | at[2] << 16 | at[1] << 8 | at[0];
}

static void on_slice(conn *c, span slice) {
  u64 count = 0;
  span bounds = {NULL, NULL}, payloads = {NULL, NULL};
  for (field f; next_field(&slice, &f);) {
    if (f.number == 2) count = f.value;
    if (f.number == 5) bounds = f.bytes;
    if (f.number == 6) payloads = f.bytes;
  }
  for (u64 k = 0; k < count; k++) {
    u32 shift = bound_at(bounds, 0), start = bound_at(bounds, k) - shift;
    u32 end = bound_at(bounds, k + 1) - shift;
    if (start > end || end > payloads.end - payloads.at) fail(EXIT_CUT_OFF, "bounds beyond bytes");
    count_delivery(c, payloads.at + start, end - start, 0);
  }
}

static void on_fetched(conn *c, span message) {
  for (field f; next_field(&message, &f);) {
    if (f.number == 3) end_offset = f.value;
    if (f.number == 4) next_offset = f.value;
    if (f.number == 5) on_slice(c, f.bytes);
  }
  c->subacks_due--;
}

static void on_stats(conn *c, span message) {
  in_flight = 0;
  for (field f; next_field(&message, &f);)
    if (f.number == 8) in_flight = f.value;
  c->ready = true;
}

static void on_error(span message) {
  span code = {NULL, NULL}, text = {NULL, NULL};
  for (field f; next_field(&message, &f);)
    if (f.number <= 2) *(f.number == 1 ? &code : &text) = f.bytes;
  fail(EXIT_REFUSED, "%.*s: %.*s", (int)(code.end - code.at), code.at, (int)(text.end - text.at),
       text.at);
}

static void on_response(conn *c, span body, u64 now) {
  field f = {0};
  if (!next_field(&body, &f)) fail(EXIT_CUT_OFF, "a response without a kind");
  switch (f.number) {
    case PRODUCED: on_produced(c, f.bytes, now); break;
    case PRODUCED_MANY: on_produced_many(c, f.bytes, now); break;
    case POLLED: on_polled(c, f.bytes, now); break;
    case OK: on_settled(c, opt.style == MANY || opt.style == TURN ? c->jobs_len : 1); break;
    case ERROR: on_error(f.bytes); break;
    case FETCHED: on_fetched(c, f.bytes); break;
    case STATS_RESULT: on_stats(c, f.bytes); break;
    default: fail(EXIT_CUT_OFF, "a response of kind %u", f.number);
  }
}

static size_t parse(conn *c, u64 now) {
  size_t at = 0;
  while (c->in_len - at >= LENGTH_BYTES) {
    const u8 *head = c->in + at;
    size_t len = (size_t)head[0] << 24 | head[1] << 16 | head[2] << 8 | head[3];
    if (LENGTH_BYTES + len > c->in_cap) fail(EXIT_CUT_OFF, "a response of %zu bytes", len);
    if (c->in_len - at < LENGTH_BYTES + len) break;
    on_response(c, (span){head + LENGTH_BYTES, head + LENGTH_BYTES + len}, now);
    at += LENGTH_BYTES + len;
  }
  return at;
}

/* ---- Looking at what was kept --------------------------------------------------------------- */

static void read_topic(void) {
  conn *auditor = zeroed(1, sizeof *auditor);
  char topic[NAME_BYTES_MAX];
  u8 body[2 * NAME_BYTES_MAX];
  name_topic(topic, 0);
  open_conn(auditor, AUDITOR, 0);
  u64 from;
  do {
    from = next_offset;
    u8 *end = put_number(put_number(put_text(body, 1, topic), 2, from), 4, JOBS_MAX);
    put_request(auditor, FETCH, body, end - body);
    auditor->subacks_due++;
    settle(auditor);
  } while (from < next_offset && next_offset < end_offset);
}

static void read_in_flight(void) {  /* the last acknowledgements may still be on their way */
  conn *auditor = zeroed(1, sizeof *auditor);
  open_conn(auditor, AUDITOR, 0);
  settle(auditor);
  for (u64 start = now_ns(); in_flight != opt.held; settle(auditor)) {
    if (now_ns() - start > (u64)(opt.drain * 1e9)) break;
    pump(5);
    auditor->ready = false;
    greet(auditor);
  }
  sum.replayed = in_flight > opt.held ? in_flight - opt.held : opt.held - in_flight;
}

const protocol QUEUE_PRODUCE = {
    .name = "queue-produce", .answers = true, .window = 32, .greet = greet, .build = build,
    .number = number, .parse = parse, .audit = read_topic};

const protocol QUEUE_SUBSCRIBE = {
    .name = "queue-subscribe", .answers = true, .window = 32, .subscribers = 1, .jobs = 64,
    .greet = greet, .subscribe = subscribe, .build = build, .number = number, .parse = parse,
    .audit = read_in_flight};

const protocol QUEUE_POLL = {
    .name = "queue-poll", .answers = true, .window = 1000, .subscribers = 1, .jobs = 256,
    .greet = greet, .build = build, .number = number, .parse = parse, .poll = poll_jobs,
    .settle = settle_jobs, .audit = read_in_flight};

const protocol QUEUE_PUSH = {
    .name = "queue-push", .answers = true, .window = 1000, .subscribers = 1, .jobs = 64,
    .pushes = true, .greet = greet, .build = build, .number = number, .parse = parse,
    .poll = push_jobs, .settle = settle_jobs, .audit = read_in_flight};
