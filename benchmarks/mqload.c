/* mqload: a load generator for message brokers. One thread, one epoll set, one JSON line.
 *
 *   build: cc -O2 -Wall -Wextra -o mqload mqload*.c      with TLS: -DWITH_TLS ... -lssl -lcrypto
 *   usage: mqload -p PORT [-m MODE] [options]
 *
 * Protocol (-m)
 *   mqtt              MQTT 3.1.1 (the default), or 5 with -V 5
 *   nats              NATS, core: PUB to SUB; nothing is answered
 *   resp-pubsub       RESP: PUBLISH, pipelined, to SUBSCRIBE, or with -F wild to PSUBSCRIBE; each
 *                     reply must count all subscribers
 *   xadd              RESP: XADD to one stream, -P connections x -w pipelined (32); no subscribers
 *   binary-publish    binary protocol: PUBLISH and its ACK, -P x -w (32); no subscribers
 *   binary-subscribe  binary protocol: PUBLISH -w 256 to MESSAGE; with -a acknowledged
 *   binary-signed     as binary-publish, frames signed in advance and read from -f FILE
 *   queue-produce     queue protocol: Produce, -P x -w (32); ProduceMany with -k; no subscribers
 *   queue-subscribe   queue protocol: Produce -w 32 to Subscribe, each subscriber in its own group;
 *                     every push is acknowledged
 *   queue-push        a backlog is produced, then -S consumers of one group Subscribe and Ack
 *   queue-poll        the same with Poll, and Ack or AckMany (see -A)
 *   xreadgroup        the same with Redis: XADD, then XREADGROUP and XACK
 *   After xadd, binary-publish and binary-signed everything that was answered is read back, not
 *   measured; after binary-subscribe -a each subscriber reconnects under its client id and must be
 *   sent nothing. After a backlog was emptied only -l messages may be in flight.
 *
 * Connections
 *   -H HOST   IPv4 address of the broker (127.0.0.1)
 *   -P N      publishers (1); 0 with -S 0 measures the background clients alone
 *   -S N      subscribers (1)
 *   -I N      background clients: connect first, then stay silent until the end (0)
 *   -T        TLS; the broker's certificate is not verified
 *   -Z        WebSocket: a masked binary frame per write
 *   -i N      filters per background client; every second one has a wildcard, none matches (0)
 * Messages
 *   -t N      topics (1)                  -R  picked at random, not round-robin
 *   -x NAME   first level of all topics ("bench")
 *   -F all    every subscriber has a filter for each topic (the default)
 *   -F wild   every subscriber has the one filter NAME/#
 *   -F part   topic t has one subscriber: t modulo -S
 *   -F own    the same, and each publisher keeps to one topic: its number modulo -t
 *   -F share  all subscribers share the one filter NAME/# (MQTT)
 *   -s SIZE   payload bytes, at least 16 (64); MIN:MAX spreads 32 sizes, picked at random
 *   -V LEVEL  protocol level of MQTT: 4 (3.1.1, the default) or 5
 *   -U N      user properties of each message, whose values vary (MQTT 5)
 *   -v        payloads are noise, which cannot be compressed, instead of readings in JSON
 *   -O        entries with four ordinary fields, whose values vary, instead of a payload (xadd,
 *             xreadgroup)
 *   -q QOS    of publishes and subscriptions (0)
 *   -e SEED   of the random numbers (1)
 *   -a        subscribers give a client id and acknowledge each message (binary-subscribe)
 *   -f FILE   signed frames, concatenated (binary-signed)
 *   -k N      messages per frame (queue modes: ProduceMany, if more than 1)
 *   -y        with a producer id and numbers, so that the broker recognises duplicates (queue modes,
 *             binary-publish)
 * Consumers
 *   -j N      jobs at a time: prefetch, or the maximum of one poll (64; polls: 256)
 *   -A STYLE  each: every job has its own Ack, directly followed by the next poll (the default)
 *             many: one request acknowledges all, directly followed by the next poll
 *             turn: one request acknowledges all, and the next poll waits for its answer
 *             one:  every Ack, and the poll, waits for the previous answer
 *   -l N      further jobs that are handed out first and stay in flight to the end (0)
 *   -u N      keep the backlog at N: settled jobs are replaced, not measured (-A turn)
 * Rate
 *   -n N      total messages (of a backlog: 100,000 by default), or
 *   -d SECS   duration (5)
 *   -o N      send N messages first, to each topic in turn, not measured: the broker has seen all
 *             topics since the subscribers came (MQTT)
 *   -b N      at most N messages per write; 1 is what ordinary clients do; 0 fills 64 KiB (0)
 *   -w N      unanswered publishes per publisher (QoS 1 and 2: 100; resp-pubsub: 1000)
 *   -c N      credit: messages sent but not yet delivered, all publishers together; 0 for no
 *             bound. The default is what fits in 4 MiB, within 64 .. 20,000. A broker that would
 *             drop when flooded is measured at the rate that it sustains without loss.
 *   -r RATE   open loop: message k is stamped with the time at which it was *due*, so that waiting
 *             in the generator counts as latency. The generator spins instead of sleeping.
 *   -z        sleep instead: for brokers that need that core (with -r)
 * Monitoring
 *   -B PID    the broker, for its CPU time and resident memory
 *   -D SECS   give up on outstanding deliveries after that long without any (2)
 *   -W SECS   end the run after that long in any case (60)
 *
 * A payload is: send time in ns (u64) | publisher (u32) | sequence (u32) | text, which differs from
 * message to message. From it follow
 * latency, and losses, duplicates and reorderings per pair of publisher and subscriber. Without
 * subscribers the latency is that of the replies. Of a backlog it is that of a batch, from the poll
 * to the last answer.
 * Exit status: 0 all delivered, 5 something was lost, 1 usage, 2 refused, 3 cut off, 4 watchdog.
 */
#include "mqload.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { WRITE_BYTES = 65536, SIZES_SPREAD = 32 };

static const protocol *const MODES[] = {
    &MQTT,          &NATS,           &RESP_PUBSUB,      &XADD,
    &XREADGROUP,    &BINARY_PUBLISH, &BINARY_SUBSCRIBE, &BINARY_SIGNED,
    &QUEUE_PRODUCE, &QUEUE_SUBSCRIBE, &QUEUE_POLL,      &QUEUE_PUSH};
const protocol *mode = &MQTT;

struct options opt = {.host = "127.0.0.1", .prefix = "bench", .publishers = 1, .subscribers = -1,
                      .topics = 1, .payload_min = 64, .payload_max = 64, .wall_max = 60,
                      .credit = -1, .drain = 2, .per_frame = 1, .version = 4};
struct totals sum;
conn *publishers, *subscribers;
frame *frames;                     /* frames[topic * sizes + size], ready but for ids and stamps */

static int epoll, sizes = 1;

void fail(int status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("mqload: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  exit(status);
}

void *grown(void *memory, size_t bytes) {
  void *result = realloc(memory, bytes);
  if (!result) fail(EXIT_REFUSED, "out of memory");
  return result;
}

void *zeroed(size_t count, size_t bytes) {
  return memset(grown(NULL, count * bytes + 1), 0, count * bytes + 1);
}

static u32 random_state = 1;
u32 random_u32(void) {      /* xorshift: good enough to break up runs, and repeatable */
  random_state ^= random_state << 13;
  random_state ^= random_state >> 17;
  return random_state ^= random_state << 5;
}

/* ---- Sending -------------------------------------------------------------------------------- */

static void watch(conn *c, bool writable) {
  struct epoll_event event = {.events = EPOLLIN | (writable ? EPOLLOUT : 0), .data.ptr = c};
  epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event);
}

void flush(conn *c) {
  while (c->out_sent < c->out_len) {
    ssize_t n = send_some(c, c->out + c->out_sent, c->out_len - c->out_sent);
    if (n >= 0) {
      c->out_sent += n;
    } else if (errno == EAGAIN) {
      if (!c->blocked) watch(c, true);
      c->blocked = true;
      return;
    } else if (errno != EINTR) {
      fail(EXIT_CUT_OFF, "send: %s", strerror(errno));
    }
  }
  c->out_sent = c->out_len = 0;
  if (c->blocked) watch(c, false);
  c->blocked = false;
}

u8 *reserve(conn *c, size_t bytes) {
  while (c->out_len + bytes > c->out_cap) {
    c->out_cap = c->out_cap ? c->out_cap * 2 : 256;
    c->out = grown(c->out, c->out_cap);
  }
  u8 *end = c->out + c->out_len;
  c->out_len += bytes;
  return end;
}

void name_topic(char *name, int topic) {
  snprintf(name, NAME_BYTES_MAX, "%s%ct%d", opt.prefix, mode->separator ? mode->separator : '/',
           topic);
}

static void build_frames(void) {
  if (opt.payload_min < opt.payload_max) sizes = SIZES_SPREAD;
  long spread = opt.payload_max - opt.payload_min;
  frames = zeroed(opt.topics * sizes, sizeof *frames);
  for (int topic = 0; topic < opt.topics; topic++) {
    char name[NAME_BYTES_MAX];
    name_topic(name, topic);
    for (int k = 0; k < sizes; k++) {
      int payload = sizes == 1 ? opt.payload_max : opt.payload_min + spread * k / (sizes - 1);
      frames[topic * sizes + k] = mode->build(name, payload);
    }
  }
}

static const frame *next_frame(conn *c) {
  if (mode->load) return frames + c->sequence;
  int which = c->topic * sizes + (sizes > 1 ? random_u32() % sizes : 0);
  if (opt.spread == OWN) return frames + which;
  c->topic = (opt.random_topics ? (int)(random_u32() % opt.topics) : c->topic + 1) % opt.topics;
  return frames + which;
}

static void put_frame(conn *c, u64 stamp) {
  const frame *f = next_frame(c);
  u8 *out = reserve(c, f->len);
  int at = 0;                      /* all before it is written */
  for (int k = 0; k < opt.per_frame && !mode->load; k++) {
    int payload_at = f->payload_at + k * f->stride;
    memcpy(out + at, f->bytes + at, payload_at - at);
    vary_payload(out + payload_at, f->payload);
    put_stamp(out + payload_at, stamp, c->id, c->sequence + k);
    at = payload_at + (f->payload > PAYLOAD_BYTES_MIN ? f->payload - 1 : PAYLOAD_BYTES_MIN);
  }
  memcpy(out + at, f->bytes + at, f->len - at);
  if (mode->number) mode->number(c, out, f->payload_at);
}

void put_publish(conn *c, u64 stamp) {
  if (opt.fields) put_fields(c);
  else put_frame(c, stamp);
  if (opt.answered) {
    c->sent_at[c->asked++ % opt.window] = stamp;
    c->inflight++;
  }
  c->sequence += opt.per_frame;
  c->sent += opt.per_frame;
  sum.sent += opt.per_frame;
}

/* ---- Accounting ----------------------------------------------------------------------------- */

void count_reply(conn *c, u64 now) {
  if (!c->inflight) fail(EXIT_CUT_OFF, "p%d was sent a reply that it did not ask for", c->id);
  u64 stamp = c->sent_at[c->answered++ % opt.window];
  record(&reply_latencies, now > stamp ? now - stamp : 0);
  c->inflight--;
  sum.acked += opt.per_frame;
}

void count_id(conn *c, u64 high, u64 low) {
  u64 last_high = c->last_id[0], last_low = c->last_id[1];
  if (high == last_high && low == last_low) sum.duplicated++;
  else if (high < last_high || (high == last_high && low < last_low)) sum.reordered++;
  c->last_id[0] = high;
  c->last_id[1] = low;
}

void count_delivery(conn *c, const u8 *payload, size_t len, u64 now) {
  u64 stamp = 0;
  u32 id = UINT32_MAX, sequence = 0;
  if (len >= PAYLOAD_BYTES_MIN) {
    memcpy(&stamp, payload, 8);
    memcpy(&id, payload + 8, 4);
    memcpy(&sequence, payload + 12, 4);
  }
  if (!is_ours(payload, len, id)) {
    sum.damaged++;
    return;
  }
  u32 *expected = c->next_expected + id;
  if (sequence >= *expected) *expected = sequence + 1;
  else if (sequence + 1 == *expected) sum.duplicated++;
  else sum.reordered++;
  if (c->role == AUDITOR) {
    sum.stored++;
    return;
  }
  sum.delivered++;
  publishers[id].delivered++;
  publishers[id].checksum += sequence;
  record(&latencies, now > stamp ? now - stamp : 0);
}

/* ---- Receiving ------------------------------------------------------------------------------ */

static void on_readable(conn *c) {
  for (bool more = true; more;) {
    ssize_t n = receive_some(c, c->in + c->in_len, c->in_cap - c->in_len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (n <= 0)
      fail(EXIT_CUT_OFF, "the broker closed %c%d after %llu sent, %llu delivered",
           "psbach"[c->role], c->id, (unsigned long long)sum.sent,
           (unsigned long long)sum.delivered);
    c->in_len += n;
    size_t used = mode->parse(c, now_ns());
    memmove(c->in, c->in + used, c->in_len - used);
    c->in_len -= used;
    more = (size_t)n >= c->in_cap / 2;  /* a full buffer: there is likely more */
  }
  if (c->out_len && !c->blocked) flush(c);
}

void pump(int wait_ms) {
  struct epoll_event events[256];
  int n = epoll_wait(epoll, events, 256, wait_ms);
  for (int i = 0; i < n; i++) {
    conn *c = events[i].data.ptr;
    if (events[i].events & EPOLLOUT) flush(c);
    if (events[i].events & ~EPOLLOUT) on_readable(c);
  }
}

/* ---- Connecting ----------------------------------------------------------------------------- */

static size_t room_for(enum role role) {  /* some are sent whole pages, or as many jobs as fit */
  static const size_t least[] = {65536, 262144, 1024, 262144, 262144, 262144};
  static const size_t messages[] = {3, 3, 0, JOBS_MAX, JOBS_MAX, JOBS_MAX};
  return least[role] + messages[role] * opt.payload_max;
}

void open_conn(conn *c, enum role role, int id) {
  int one = 1;
  struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(opt.port)};
  inet_pton(AF_INET, opt.host, &peer.sin_addr);
  *c = (conn){.fd = socket(AF_INET, SOCK_STREAM, 0), .role = role, .id = id};
  if (c->fd < 0 || connect(c->fd, (void *)&peer, sizeof peer) < 0)
    fail(EXIT_REFUSED, "connection %d: %s", id, strerror(errno));
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  begin_tls(c);
  begin_websocket(c);
  fcntl(c->fd, F_SETFL, O_NONBLOCK);
  c->in_cap = room_for(role);
  c->in = grown(NULL, c->in_cap);
  if (role == PUBLISHER) c->sent_at = zeroed(opt.window, sizeof(u64));
  if (role == SUBSCRIBER || role == AUDITOR)
    c->next_expected = zeroed(opt.publishers, sizeof(u32));
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
  epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
  mode->greet(c);
}

void close_conn(conn *c) {
  end_websocket(c);
  end_tls(c);
  close(c->fd);
}

void subscribe_to(conn *c, const char *topic) {
  mode->subscribe(c, topic);
  c->subacks_due++;
}

bool is_settled(const conn *c) { return c->ready && c->subacks_due <= 0; }

void settle(conn *c) {
  flush(c);
  for (u64 start = now_ns(); !is_settled(c); pump(10))
    if (now_ns() - start > 20 * SECOND) fail(EXIT_REFUSED, "no answer from the broker in 20 s");
}

static void subscribe_to_all(conn *c) {
  char filter[NAME_BYTES_MAX];
  int len = opt.spread == SHARE ? snprintf(filter, sizeof filter, "$share/g/") : 0;
  snprintf(filter + len, sizeof filter - len, mode->wildcard, opt.prefix);
  subscribe_to(c, filter);
}

static void open_subscriber(conn *c, int id) {
  char topic[NAME_BYTES_MAX];
  bool is_part = opt.spread == PART || opt.spread == OWN;
  open_conn(c, SUBSCRIBER, id);
  if (opt.spread == WILD || opt.spread == SHARE) subscribe_to_all(c);
  else for (int t = is_part ? id : 0; t < opt.topics; t += is_part ? opt.subscribers : 1) {
    name_topic(topic, t);
    subscribe_to(c, topic);
  }
  settle(c);
}

/* ---- The run -------------------------------------------------------------------------------- */

static long long least(long long a, long long b) { return a < b ? a : b; }

static long long outstanding(const conn *c) {
  return c->sent - c->forgiven - c->delivered / opt.fan;
}

static long long in_frames(long long messages) {
  return messages > 0 ? (messages + opt.per_frame - 1) / opt.per_frame : 0;
}

static bool publish_saturated(u64 now) {  /* returns whether any publisher could go on at once */
  static int first;
  bool going = false;
  for (int k = 0; k < opt.publishers; k++) {
    conn *c = publishers + (first + k) % opt.publishers;
    if (c->blocked || c->out_len) continue;
    long long allowed = opt.per_write ? opt.per_write : INT32_MAX;
    if (opt.answered) allowed = least(allowed, opt.window - c->inflight);
    if (opt.credit) allowed = least(allowed, in_frames(opt.credit - outstanding(c)));
    if (opt.messages) allowed = least(allowed, in_frames(opt.messages - sum.sent));
    if (allowed <= 0) continue;
    while (allowed-- > 0 && c->out_len < WRITE_BYTES) put_publish(c, now);
    flush(c);
    going |= !c->blocked;
  }
  first = (first + 1) % opt.publishers;
  return going;
}

static void publish_due(u64 start, u64 now) {  /* message k belongs to publisher k modulo P */
  u64 due = (now - start) * (opt.rate / 1e9) + 1;
  if (opt.messages && due > opt.messages) due = opt.messages;
  for (int i = 0; i < opt.publishers; i++) {
    conn *c = publishers + i;
    for (int burst = 0; burst < 64 && !c->blocked; burst++) {
      u64 k = (u64)c->sequence * opt.publishers + i;
      if (k >= due || (opt.answered && c->inflight >= opt.window)) break;
      put_publish(c, start + (u64)(k * 1e9 / opt.rate));
    }
    if (c->out_len && !c->blocked) flush(c);
  }
}

static void rest(u64 start) {  /* until the next message is due, or there is something to read */
  u64 now = now_ns(), next = start + (u64)(sum.sent * 1e9 / opt.rate);
  if (next <= now) return;
  struct timespec left = {.tv_sec = (next - now) / SECOND, .tv_nsec = (next - now) % SECOND};
  struct pollfd any = {.fd = epoll, .events = POLLIN};
  ppoll(&any, 1, &left, NULL);
}

static bool all_arrived(void) {    /* of a backlog nothing is delivered yet */
  if (!mode->poll && sum.delivered < sum.sent * opt.fan) return false;
  return !opt.answered || sum.acked >= sum.sent;
}

static void forgive(void) {  /* credit that never came back: the broker has dropped messages */
  for (int i = 0; i < opt.publishers; i++) {
    long long lost = outstanding(publishers + i);
    publishers[i].forgiven += lost;
    sum.forgiven += lost;
  }
}

times run(void) {
  times t = {.start = now_ns()};
  u64 stop = opt.seconds > 0 ? t.start + (u64)(opt.seconds * 1e9) : UINT64_MAX;
  u64 progress = t.start, seen_delivered = 0, seen_acked = 0;
  for (u64 now = t.start; now - t.start < opt.wall_max * SECOND; now = now_ns()) {
    bool going = opt.rate > 0;
    if (!t.published && (now >= stop || (opt.messages && sum.sent >= opt.messages)))
      t.published = now;
    if (t.published && (all_arrived() || now - progress > (u64)(opt.drain * 1e9))) break;
    if (!t.published && opt.rate > 0) publish_due(t.start, now);
    else if (!t.published) going = publish_saturated(now);
    if (opt.sleeps && !t.published) rest(t.start);
    pump(going && !t.published ? 0 : 5);
    if (sum.delivered != seen_delivered) t.last_delivery = progress = now_ns();
    if (sum.acked != seen_acked) progress = now_ns();
    seen_delivered = sum.delivered;
    seen_acked = sum.acked;
    if (opt.credit && !t.published && now > progress && now - progress > 7 * SECOND / 10) {
      forgive();
      progress = now;
    }
  }
  t.end = now_ns();
  if (!t.published) t.published = t.end;
  if (!t.last_delivery) t.last_delivery = t.end;
  return t;
}

static void set_credit(void) {
  if (opt.credit < 0) {
    opt.credit = 4194304 / frames[sizes - 1].len;
    opt.credit = opt.credit < 64 ? 64 : least(opt.credit, 20000);
  }
  if (!opt.subscribers || opt.rate > 0) opt.credit = 0;
  if (opt.credit && (opt.credit /= opt.publishers) < 1) opt.credit = 1;
}

static void open_all(void) {
  publishers = zeroed(opt.publishers, sizeof *publishers);
  subscribers = zeroed(opt.subscribers, sizeof *subscribers);
  for (int i = 0; i < opt.subscribers; i++) open_subscriber(subscribers + i, i);
  for (int i = 0; i < opt.publishers; i++) {
    open_conn(publishers + i, PUBLISHER, i);
    publishers[i].topic = i % opt.topics;
    settle(publishers + i);
  }
}

static void warm_up(void) {
  struct options asked = opt;
  opt.messages = asked.warm_up;
  opt.seconds = opt.rate = 0;
  opt.random_topics = opt.sleeps = false;
  run();
  if (!all_arrived()) fail(EXIT_CUT_OFF, "-o: some of the first messages were lost");
  opt = asked;
  memset(&sum, 0, sizeof sum);
  memset(&latencies, 0, sizeof latencies);
  memset(&reply_latencies, 0, sizeof reply_latencies);
}

static long long measure(void) {
  if (mode->load) mode->load();
  else build_frames();
  if (!mode->load) make_text();
  set_credit();
  open_all();
  if (mode->poll) make_backlog();
  if (opt.warm_up) warm_up();
  nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  usage broker = usage_of(opt.broker), generator = usage_of(getpid());
  times t = mode->poll ? drain() : run();
  report(t, usage_since(opt.broker, broker), usage_since(getpid(), generator));
  if (mode->audit) mode->audit();
  return report_flaws();
}

/* ---- Command line --------------------------------------------------------------------------- */

static void read_sizes(const char *text) {
  const char *colon = strchr(text, ':');
  opt.payload_min = atoi(text);
  opt.payload_max = colon ? atoi(colon + 1) : opt.payload_min;
  if (opt.payload_min < PAYLOAD_BYTES_MIN || opt.payload_max < opt.payload_min)
    fail(EXIT_USAGE, "-s %s: sizes start at %d and do not fall", text, PAYLOAD_BYTES_MIN);
}

static const protocol *mode_named(const char *name) {
  for (size_t i = 0; i < sizeof MODES / sizeof *MODES; i++)
    if (!strcmp(MODES[i]->name, name)) return MODES[i];
  fail(EXIT_USAGE, "-m %s: there is no such mode", name);
}

static enum spread spread_named(const char *name) {
  static const char *const names[] = {"all", "wild", "part", "own", "share"};
  for (enum spread spread = ALL; spread <= SHARE; spread++)
    if (!strcmp(names[spread], name)) return spread;
  fail(EXIT_USAGE, "-F %s: there is no such spread", name);
}

static void check_spread(void) {
  if (opt.spread == WILD && !mode->wildcard) fail(EXIT_USAGE, "-F wild: not with %s", mode->name);
  if (opt.spread == SHARE && mode != &MQTT) fail(EXIT_USAGE, "-F share: only MQTT has it");
  if ((opt.spread == PART || opt.spread == OWN) && opt.topics < opt.subscribers)
    fail(EXIT_USAGE, "-F part, -F own: a topic for each subscriber (-t)");
}

static void check_queue_options(void) {
  bool queue = mode->greet == QUEUE_PRODUCE.greet;
  if (opt.per_frame < 1 || (opt.per_frame > 1 && (!queue || opt.rate > 0)))
    fail(EXIT_USAGE, "-k: only queue modes have it, and not with -r");
  if (opt.producer_ids && !queue && mode != &BINARY_PUBLISH)
    fail(EXIT_USAGE, "-y: only queue modes and binary-publish have it");
  if (opt.producer_ids && queue && opt.payload_min < opt.payload_max)
    fail(EXIT_USAGE, "-y: payloads of one size only");
  if (opt.jobs < 0 || opt.jobs > JOBS_MAX) fail(EXIT_USAGE, "-j: 1 to %d", JOBS_MAX);
  if (opt.jobs && !mode->jobs) fail(EXIT_USAGE, "-j: not with %s", mode->name);
  if ((opt.held || opt.kept) && (!mode->poll || mode->pushes))
    fail(EXIT_USAGE, "-l, -u: only with polls");
  if (opt.kept && (opt.style != TURN || opt.subscribers > 1 || opt.per_frame != opt.jobs))
    fail(EXIT_USAGE, "-u: with -A turn, one consumer, and as many messages per frame as jobs");
}

static enum style style_named(const char *name) {
  static const char *const names[] = {"each", "many", "turn", "one"};
  for (enum style style = EACH; style <= ONE; style++)
    if (!strcmp(names[style], name)) return style;
  fail(EXIT_USAGE, "-A %s: there is no such style", name);
}

static void check_options(void) {
  if (!opt.port) fail(EXIT_USAGE, "-p PORT is needed");
  if (strlen(opt.prefix) > 32) fail(EXIT_USAGE, "-x: at most 32 bytes");
  if (opt.warm_up && (mode != &MQTT || opt.rate > 0))
    fail(EXIT_USAGE, "-o: only MQTT has it, and not with -r");
  if (opt.noise && mode->load) fail(EXIT_USAGE, "-v: not with %s", mode->name);
  if (opt.fields && mode != &XADD && mode != &XREADGROUP)
    fail(EXIT_USAGE, "-O: only xadd and xreadgroup have it");
  if (opt.version != 4 && (opt.version != 5 || mode != &MQTT))
    fail(EXIT_USAGE, "-V: 4 or 5, and only MQTT has it");
  if (opt.user_properties < 0 || opt.user_properties > (opt.version == 5 ? 9 : 0))
    fail(EXIT_USAGE, "-U: up to 9, with -V 5");
  if (opt.qos && mode != &MQTT) fail(EXIT_USAGE, "-q: only MQTT has it");
  if (opt.acknowledge && mode != &BINARY_SUBSCRIBE) fail(EXIT_USAGE, "-a: binary-subscribe only");
  if (opt.subscribers && !mode->subscribers) fail(EXIT_USAGE, "-S: none with %s", mode->name);
  if (mode->audit && mode != &BINARY_PUBLISH && opt.topics > 1)
    fail(EXIT_USAGE, "-t: one topic with %s", mode->name);
  if ((mode->load || mode->poll) && opt.publishers > 1)
    fail(EXIT_USAGE, "-P: one with %s", mode->name);
  if (opt.window < 1) fail(EXIT_USAGE, "-w: at least 1");
  if (opt.sleeps && opt.rate <= 0) fail(EXIT_USAGE, "-z: only with -r");
  check_spread();
  check_queue_options();
}

static void read_options(int argc, char **argv) {
  const char *letters = "A:B:D:F:H:I:OP:RS:TU:V:W:Zab:c:d:e:f:i:j:k:l:m:n:o:p:q:r:s:t:u:vw:x:yz";
  for (int letter; (letter = getopt(argc, argv, letters)) != -1;) switch (letter) {
    case 'A': opt.style = style_named(optarg); break;
    case 'B': opt.broker = atoi(optarg); break;
    case 'D': opt.drain = atof(optarg); break;
    case 'F': opt.spread = spread_named(optarg); break;
    case 'H': opt.host = optarg; break;
    case 'I': opt.background = atoi(optarg); break;
    case 'O': opt.fields = true; break;
    case 'P': opt.publishers = atoi(optarg); break;
    case 'R': opt.random_topics = true; break;
    case 'T': opt.tls = true; break;
    case 'U': opt.user_properties = atoi(optarg); break;
    case 'V': opt.version = atoi(optarg); break;
    case 'Z': opt.websocket = true; break;
    case 'S': opt.subscribers = atoi(optarg); break;
    case 'W': opt.wall_max = atoi(optarg); break;
    case 'a': opt.acknowledge = true; break;
    case 'b': opt.per_write = atoi(optarg); break;
    case 'c': opt.credit = atoll(optarg); break;
    case 'd': opt.seconds = atof(optarg); break;
    case 'e': random_state = strtoul(optarg, NULL, 10) * 2654435761u | 1; break;
    case 'f': opt.frames = optarg; break;
    case 'i': opt.filters = atoi(optarg); break;
    case 'j': opt.jobs = atoi(optarg); break;
    case 'k': opt.per_frame = atoi(optarg); break;
    case 'l': opt.held = strtoull(optarg, NULL, 10); break;
    case 'm': mode = mode_named(optarg); break;
    case 'n': opt.messages = strtoull(optarg, NULL, 10); break;
    case 'o': opt.warm_up = strtoull(optarg, NULL, 10); break;
    case 'p': opt.port = atoi(optarg); break;
    case 'q': opt.qos = atoi(optarg); break;
    case 'r': opt.rate = atof(optarg); break;
    case 's': read_sizes(optarg); break;
    case 't': opt.topics = atoi(optarg); break;
    case 'u': opt.kept = strtoull(optarg, NULL, 10); break;
    case 'v': opt.noise = true; break;
    case 'w': opt.window = atoi(optarg); break;
    case 'x': opt.prefix = optarg; break;
    case 'y': opt.producer_ids = true; break;
    case 'z': opt.sleeps = true; break;
    default: fail(EXIT_USAGE, "the options are listed at the top of mqload.c");
  }
  if (opt.subscribers < 0) opt.subscribers = mode->subscribers;
  if (!opt.window) opt.window = mode->window;
  opt.answered = mode->answers || opt.qos;
  check_options();
  opt.fan = opt.spread < PART ? opt.subscribers : opt.subscribers > 0;
  if (opt.fields) opt.payload_min = opt.payload_max = PAYLOAD_BYTES_MIN;
  if (!opt.jobs) opt.jobs = mode->jobs;
  if (mode->poll) {                /* the backlog comes first: nobody subscribes while it grows */
    opt.consumers = opt.subscribers;
    opt.subscribers = opt.seconds = 0;
    if (!opt.messages) opt.messages = 100000;
  }
  if (!opt.messages && opt.seconds <= 0) opt.seconds = 5;
}

static void on_watchdog(int number) {
  (void)number;
  static const char text[] = "mqload: no end in sight; stopped by the watchdog\n";
  if (write(2, text, sizeof text - 1)) _exit(EXIT_WATCHDOG);
}

int main(int argc, char **argv) {
  read_options(argc, argv);
  signal(SIGALRM, on_watchdog);
  alarm(opt.wall_max + 30);
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  epoll = epoll_create1(EPOLL_CLOEXEC);
  putchar('{');
  if (opt.background) open_background();
  long long lost = opt.publishers ? measure() : 0;
  printf("\"broker_rss_kib\":%ld}\n", resident_kib(opt.broker));
  return lost ? EXIT_LOSS : 0;
}
