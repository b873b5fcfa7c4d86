/* RESP2, as Redis speaks it: PUBLISH to SUBSCRIBE or PSUBSCRIBE (resp-pubsub), XADD (xadd), and
 * XREADGROUP with XACK (xreadgroup).
 *
 * A reply to PUBLISH must be the number of our subscribers. Replies to XADD must be ids that rise;
 * when the run is over, the stream is read from end to end (XRANGE), and what is in it is counted
 * as deliveries are. After XREADGROUP nothing must be pending.
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

static void put_id(conn *c, job id) {
  char text[64], whole[96];
  int len = snprintf(text, sizeof text, "%llu-%llu", (unsigned long long)id.high,
                     (unsigned long long)id.low);
  len = snprintf(whole, sizeof whole, "$%d\r\n%s\r\n", len, text);
  memcpy(reserve(c, len), whole, len);
}

static void greet(conn *c) { put_command(c, 1, (const char *[]){"PING"}); }

static void subscribe(conn *c, const char *topic) {
  put_command(c, 2, (const char *[]){opt.spread == WILD ? "PSUBSCRIBE" : "SUBSCRIBE", topic});
}

static frame end_with_payload(u8 *bytes, int payload_at, int payload) {
  fill_payload(bytes + payload_at, payload);
  memcpy(bytes + payload_at + payload, "\r\n", 2);
  return (frame){.bytes = bytes, .len = payload_at + payload + 2, .payload_at = payload_at,
                 .payload = payload};
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

static job id_at(const u8 *value) {
  size_t len;
  char *dash;
  u64 milliseconds = strtoull((const char *)bulk(value, &len), &dash, 10);
  if (*dash != '-') fail(EXIT_CUT_OFF, "expected the id of an entry, not %.20s", value);
  return (job){milliseconds, strtoull(dash + 1, NULL, 10)};
}

static void on_publisher_reply(conn *c, const u8 *value, u64 now) {
  if (*value == '$') {
    job id = id_at(value);
    count_id(c, id.high, id.low);
  } else if (*value != ':' || number_at(value) != opt.fan) {
    fail(EXIT_CUT_OFF, "PUBLISH reached %ld subscribers of %d", number_at(value), opt.fan);
  }
  count_reply(c, now);
}

static void on_push(conn *c, const u8 *value, const u8 *end, u64 now) {
  size_t len;
  const u8 *kind = line_end(value, end), *topic = value_end(kind, end);
  const u8 *word = bulk(kind, &len);
  bool by_pattern = *word == 'p';
  if (by_pattern) {
    word++;
    len--;
  }
  if (len == 9 && !memcmp(word, "subscribe", 9)) {
    c->subacks_due--;
  } else if (len == 7 && !memcmp(word, "message", 7)) {
    const u8 *last = value_end(topic, end);
    const u8 *payload = bulk(by_pattern ? value_end(last, end) : last, &len);
    count_delivery(c, payload, len, now);
  } else {
    fail(EXIT_CUT_OFF, "a subscriber was sent %.*s", (int)len, word);
  }
}

enum { WORDS_MAX = 16 };

/* What an entry carries: the value of its one field, or with -O a stamp for all of its fields. */
static const u8 *payload_of(const u8 *fields, const u8 *end, size_t *len) {
  static u8 stamp[PAYLOAD_BYTES_MIN];
  const u8 *at = line_end(fields, end), *bytes[WORDS_MAX];
  size_t lengths[WORDS_MAX];
  int count = number_at(fields);
  if (!opt.fields) return bulk(value_end(at, end), len);
  for (int k = 0; k < count && k < WORDS_MAX; k++, at = value_end(at, end))
    bytes[k] = bulk(at, lengths + k);
  stamp_of_fields(bytes, lengths, count, stamp);
  *len = sizeof stamp;
  return stamp;
}

static bool page_was_last;
static char next_page[64];

static void on_page(conn *c, const u8 *value, const u8 *end) {  /* entries: [id, [name, value]] */
  size_t len;
  long entries = number_at(value);
  const u8 *at = line_end(value, end);
  for (long i = 0; i < entries; i++) {
    const u8 *id = line_end(at, end);
    snprintf(next_page, sizeof next_page, "(%.*s", (int)number_at(id), bulk(id, &len));
    const u8 *payload = payload_of(value_end(id, end), end, &len);
    count_delivery(c, payload, len, 0);
    at = value_end(at, end);
  }
  page_was_last = entries < PAGE_ENTRIES;
  c->subacks_due--;
}

static void on_jobs(conn *c, const u8 *value, const u8 *end) {  /* [[key, entries]], or nothing */
  size_t len;
  if (number_at(value) > 0) {
    const u8 *key = line_end(line_end(value, end), end), *entries = value_end(key, end);
    const u8 *at = line_end(entries, end);
    for (long i = number_at(entries); i > 0; i--, at = value_end(at, end)) {
      const u8 *id = line_end(at, end);
      const u8 *payload = payload_of(value_end(id, end), end, &len);
      on_job(c, id_at(id), payload, len);
    }
  }
  on_batch_end(c);
}

static void on_consumer_reply(conn *c, const u8 *value, const u8 *end) {
  if (*value == ':') on_settled(c, number_at(value));
  else on_jobs(c, value, end);
}

static void on_pending(conn *c, const u8 *value, const u8 *end) {  /* [how many, ...] */
  long pending = number_at(line_end(value, end));
  sum.replayed = labs(pending - (long)opt.held);
  c->subacks_due--;
}

static void on_value(conn *c, const u8 *value, const u8 *end, u64 now) {
  if (*value == '-') fail(EXIT_REFUSED, "%.*s", (int)(end - value - 2), value + 1);
  if (*value == '+') c->ready = true;
  else if (c->role == PUBLISHER) on_publisher_reply(c, value, now);
  else if (c->role == CONSUMER || c->role == HOLDER) on_consumer_reply(c, value, end);
  else if (c->role == AUDITOR && mode == &XREADGROUP) on_pending(c, value, end);
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

/* ---- Consuming ------------------------------------------------------------------------------ */

static void make_group(conn *c) {
  char key[NAME_BYTES_MAX];
  name_topic(key, 0);
  c->ready = false;
  put_command(c, 5, (const char *[]){"XGROUP", "CREATE", key, "g", "0"});
  settle(c);
}

static void poll_jobs(conn *c, int most) {
  char key[NAME_BYTES_MAX], count[16], name[16];
  name_topic(key, 0);
  snprintf(count, sizeof count, "%d", most);
  snprintf(name, sizeof name, "%c%d", "psbach"[c->role], c->id);
  put_command(c, 9, (const char *[]){"XREADGROUP", "GROUP", "g", name, "COUNT", count, "STREAMS",
                                     key, ">"});
}

static void settle_jobs(conn *c, const job *jobs, int count) {
  char key[NAME_BYTES_MAX], head[2 * NAME_BYTES_MAX];
  name_topic(key, 0);
  int len = snprintf(head, sizeof head, "*%d\r\n$4\r\nXACK\r\n$%zu\r\n%s\r\n$1\r\ng\r\n",
                     3 + count, strlen(key), key);
  memcpy(reserve(c, len), head, len);
  for (int k = 0; k < count; k++) put_id(c, jobs[k]);
}

static void read_pending(void) {
  conn *auditor = zeroed(1, sizeof *auditor);
  char key[NAME_BYTES_MAX];
  name_topic(key, 0);
  open_conn(auditor, AUDITOR, 0);
  put_command(auditor, 3, (const char *[]){"XPENDING", key, "g"});
  auditor->subacks_due++;
  settle(auditor);
}

const protocol RESP_PUBSUB = {
    .name = "resp-pubsub", .wildcard = "%s/*", .answers = true, .window = 1000, .subscribers = 1,
    .greet = greet, .subscribe = subscribe, .build = build_publish, .parse = parse};

const protocol XADD = {
    .name = "xadd", .answers = true, .window = 32, .greet = greet, .subscribe = subscribe,
    .build = build_xadd, .parse = parse, .audit = read_stream};

const protocol XREADGROUP = {
    .name = "xreadgroup", .answers = true, .window = 1000, .subscribers = 1, .jobs = 256,
    .greet = greet, .build = build_xadd, .parse = parse, .prepare = make_group,
    .poll = poll_jobs, .settle = settle_jobs, .audit = read_pending};
