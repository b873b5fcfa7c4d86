/* mqload: a load generator for MQTT 3.1.1 brokers. One thread, one epoll set, one JSON line.
 *
 *   build: cc -O2 -Wall -Wextra -o mqload mqload.c
 *   usage: mqload -p PORT [options]
 *
 * Who connects
 *   -H HOST   IPv4 address of the broker (127.0.0.1)
 *   -P N      publishers (1); 0 with -S 0 measures the background clients alone
 *   -S N      subscribers (1)
 *   -I N      background clients: connect first, then stay silent until the end (0)
 *   -i N      filters per background client; every second one has a wildcard, none matches (0)
 * What is sent
 *   -t N      topics (1)                  -R  picked at random, not in turn
 *   -x NAME   first level of all topics ("bench")
 *   -F all    every subscriber has a filter for each topic
 *   -F wild   every subscriber has the one filter NAME/#
 *   -s SIZE   payload bytes, at least 16 (64); MIN:MAX spreads 32 sizes, picked at random
 *   -q QOS    of publishes and subscriptions (0)
 *   -e SEED   of the random numbers (1)
 * How fast
 *   -n N      messages in all, or
 *   -d SECS   duration (5)
 *   -b N      at most N messages per write; 1 is what ordinary clients do; 0 fills 64 KiB (0)
 *   -w N      unacknowledged QoS 1 and 2 publishes per publisher (100)
 *   -c N      credit: messages sent but not yet delivered, all publishers together; 0 for no
 *             bound. The default is what fits in 4 MiB, within 64 .. 20,000. A broker that would
 *             drop when flooded is so measured at the rate that it sustains without loss.
 *   -r RATE   open loop: message k is stamped with the time at which it was *due*, so that waiting
 *             in the generator counts as latency. The generator spins instead of sleeping.
 * What is watched
 *   -B PID    the broker, for its CPU time and resident memory
 *   -D SECS   give up on outstanding deliveries after that long without any (2)
 *   -W SECS   end the run after that long, whatever the state (60)
 *
 * A payload is: send time in ns (u64) | publisher (u32) | sequence (u32) | filler. From it follow
 * latency, and losses, duplicates and reorderings per pair of publisher and subscriber.
 * Exit status: 0 all delivered, 5 something was lost, 1 usage, 2 refused, 3 cut off, 4 watchdog.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

#define SECOND 1000000000ull
enum { WRITE_BYTES = 65536, SIZES_SPREAD = 32, PAYLOAD_BYTES_MIN = 16, CONNECTING_MAX = 64 };
enum { EXIT_USAGE = 1, EXIT_REFUSED = 2, EXIT_CUT_OFF = 3, EXIT_WATCHDOG = 4, EXIT_LOSS = 5 };
enum packet { CONNECT = 1, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK };
enum role { PUBLISHER, SUBSCRIBER, BACKGROUND };

typedef struct {
  int fd, id, subacks_due;
  enum role role;
  bool ready, blocked;             /* CONNACK seen; the socket takes no more for now */
  u8 *in, *out;
  size_t in_len, in_cap, out_sent, out_len, out_cap;
  int topic, inflight;             /* publisher: next topic, unacknowledged publishes */
  uint16_t packet_id;
  u32 sequence;
  u64 sent, delivered, forgiven;   /* delivered: over all subscribers; forgiven: taken for lost */
  u32 *next_expected;              /* subscriber: next sequence, by publisher */
} conn;

typedef struct { u8 *bytes; int len, payload_at; } frame;

static struct {
  const char *host, *prefix;
  int port, publishers, subscribers, background, filters, topics, qos, per_write, window, broker;
  int payload_min, payload_max, wall_max;
  bool random_topics, wildcard;
  u64 messages;
  long long credit;
  double seconds, rate, drain;
} opt = {.host = "127.0.0.1", .prefix = "bench", .publishers = 1, .subscribers = 1, .topics = 1,
         .window = 100, .payload_min = 64, .payload_max = 64, .wall_max = 60, .credit = -1,
         .drain = 2};

static struct { u64 sent, delivered, acked, duplicated, reordered, forgiven; } sum;
static int epoll, sizes = 1;
static conn *publishers, *subscribers;
static frame *frames;              /* frames[topic * sizes + size], ready but for ids and stamps */

static u64 now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * SECOND + t.tv_nsec;
}

static void fail(int status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("mqload: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  exit(status);
}

static void *grown(void *memory, size_t bytes) {
  void *result = realloc(memory, bytes);
  if (!result) fail(EXIT_REFUSED, "out of memory");
  return result;
}

static void *zeroed(size_t count, size_t bytes) {
  return memset(grown(NULL, count * bytes + 1), 0, count * bytes + 1);
}

static u32 random_state = 1;
static u32 random_u32(void) {      /* xorshift: good enough to break up runs, and repeatable */
  random_state ^= random_state << 13;
  random_state ^= random_state >> 17;
  return random_state ^= random_state << 5;
}

/* ---- Latency histogram: 64 buckets per power of two, so within 1.6 % ------------------------ */

enum { BUCKETS = 64 * 60 };
static u64 buckets[BUCKETS], latency_max;

static void record_latency(u64 ns) {
  if (ns > latency_max) latency_max = ns;
  int shift = ns < 128 ? 0 : 63 - __builtin_clzll(ns) - 6;
  int bucket = ns < 128 ? (int)ns : (shift << 6) + (int)(ns >> shift);
  buckets[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
}

static double percentile_us(double percent) {
  u64 wanted = percent / 100 * sum.delivered, seen = 0;
  for (int bucket = 0; bucket < BUCKETS; bucket++) {
    seen += buckets[bucket];
    if (seen <= wanted) continue;
    if (bucket < 128) return bucket / 1e3;
    return ((u64)(64 + (bucket & 63)) << ((bucket >> 6) - 1)) / 1e3;
  }
  return latency_max / 1e3;
}

/* ---- What a process used -------------------------------------------------------------------- */

typedef struct { double cpu_s, wait_s; } usage;   /* wait: runnable, but another had the core */

static usage usage_of(int pid) {
  usage total = {0, 0};
  char path[300];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *tasks = pid ? opendir(path) : NULL;
  for (struct dirent *task; tasks && (task = readdir(tasks));) {
    unsigned long long cpu, wait;
    snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, task->d_name);
    FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
    if (!file) continue;
    if (fscanf(file, "%llu %llu", &cpu, &wait) == 2) {
      total.cpu_s += cpu / 1e9;
      total.wait_s += wait / 1e9;
    }
    fclose(file);
  }
  if (tasks) closedir(tasks);
  return total;
}

static usage usage_since(int pid, usage before) {
  usage now = usage_of(pid);
  return (usage){now.cpu_s - before.cpu_s, now.wait_s - before.wait_s};
}

static long resident_kib(int pid) {
  char line[256];
  long kib = 0;
  snprintf(line, sizeof line, "/proc/%d/status", pid);
  FILE *file = pid ? fopen(line, "r") : NULL;
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
  if (file) fclose(file);
  return kib;
}

/* ---- Sending -------------------------------------------------------------------------------- */

static void watch(conn *c, bool writable) {
  struct epoll_event event = {.events = EPOLLIN | (writable ? EPOLLOUT : 0), .data.ptr = c};
  epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event);
}

static void flush(conn *c) {
  while (c->out_sent < c->out_len) {
    ssize_t n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);
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

static u8 *reserve(conn *c, size_t bytes) {
  while (c->out_len + bytes > c->out_cap) {
    c->out_cap = c->out_cap ? c->out_cap * 2 : 256;
    c->out = grown(c->out, c->out_cap);
  }
  u8 *end = c->out + c->out_len;
  c->out_len += bytes;
  return end;
}

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

static void put_connect(conn *c) {
  static const char letter[] = {'p', 's', 'b'};
  char client_id[24];
  u8 body[64] = "\0\4MQTT\4\2\0\0";  /* level 4, clean session, no keep-alive */
  snprintf(client_id, sizeof client_id, "%c%d-%d", letter[c->role], (int)getpid(), c->id);
  int len = 10 + put_string(body + 10, client_id);
  u8 *out = reserve(c, 2 + len);
  out[0] = CONNECT << 4;
  out[1] = len;
  memcpy(out + 2, body, len);
}

static void put_subscribe(conn *c, const char *filter) {
  u8 packet[128] = {SUBSCRIBE << 4 | 2};
  int packet_id = c->subacks_due % 65535 + 1, at = 1;
  at += put_length(packet + at, 2 + 2 + strlen(filter) + 1);
  packet[at++] = packet_id >> 8;
  packet[at++] = packet_id;
  at += put_string(packet + at, filter);
  packet[at++] = opt.qos;
  memcpy(reserve(c, at), packet, at);
  c->subacks_due++;
}

static void put_ack(conn *c, u8 header, const u8 *packet_id) {
  u8 *out = reserve(c, 4);
  out[0] = header;
  out[1] = 2;
  memcpy(out + 2, packet_id, 2);
}

static frame build_frame(const char *topic, int payload) {
  frame f = {.bytes = zeroed(1, payload + 128)};
  f.bytes[0] = PUBLISH << 4 | opt.qos << 1;
  f.len = 1 + put_length(f.bytes + 1, 2 + strlen(topic) + (opt.qos ? 2 : 0) + payload);
  f.len += put_string(f.bytes + f.len, topic);
  f.payload_at = f.len += opt.qos ? 2 : 0;
  for (int i = PAYLOAD_BYTES_MIN; i < payload; i++) f.bytes[f.payload_at + i] = 'a' + i % 26;
  f.len += payload;
  return f;
}

static void build_frames(void) {
  if (opt.payload_min < opt.payload_max) sizes = SIZES_SPREAD;
  long spread = opt.payload_max - opt.payload_min;
  frames = zeroed(opt.topics * sizes, sizeof *frames);
  for (int topic = 0; topic < opt.topics; topic++) {
    char name[96];
    snprintf(name, sizeof name, "%s/t%d", opt.prefix, topic);
    for (int k = 0; k < sizes; k++) {
      int payload = sizes == 1 ? opt.payload_max : opt.payload_min + spread * k / (sizes - 1);
      frames[topic * sizes + k] = build_frame(name, payload);
    }
  }
}

static void put_publish(conn *c, u64 stamp) {
  int which = c->topic * sizes + (sizes > 1 ? random_u32() % sizes : 0);
  c->topic = (opt.random_topics ? (int)(random_u32() % opt.topics) : c->topic + 1) % opt.topics;
  const frame *f = frames + which;
  u8 *out = memcpy(reserve(c, f->len), f->bytes, f->len), *payload = out + f->payload_at;
  if (opt.qos) {
    if (!++c->packet_id) c->packet_id = 1;
    payload[-2] = c->packet_id >> 8;
    payload[-1] = c->packet_id;
    c->inflight++;
  }
  u32 id = c->id;
  memcpy(payload, &stamp, 8);
  memcpy(payload + 8, &id, 4);
  memcpy(payload + 12, &c->sequence, 4);
  c->sequence++;
  c->sent++;
  sum.sent++;
}

/* ---- Receiving ------------------------------------------------------------------------------ */

static void count_delivery(conn *c, const u8 *payload, size_t len, u64 now) {
  u64 stamp;
  u32 id, sequence;
  if (len < PAYLOAD_BYTES_MIN) return;
  memcpy(&stamp, payload, 8);
  memcpy(&id, payload + 8, 4);
  memcpy(&sequence, payload + 12, 4);
  if ((int)id >= opt.publishers) return;
  sum.delivered++;
  publishers[id].delivered++;
  u32 *expected = c->next_expected + id;
  if (sequence >= *expected) *expected = sequence + 1;
  else if (sequence + 1 == *expected) sum.duplicated++;
  else sum.reordered++;
  record_latency(now > stamp ? now - stamp : 0);
}

static void on_publish(conn *c, u8 header, const u8 *body, size_t len, u64 now) {
  int qos = header >> 1 & 3;
  size_t at = 2 + (body[0] << 8 | body[1]);
  if (qos) {
    put_ack(c, (qos == 1 ? PUBACK : PUBREC) << 4, body + at);
    at += 2;
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
    case PUBCOMP:
      c->inflight--;
      sum.acked++;
      break;
  }
}

static size_t parse(conn *c, u64 now) {  /* returns how many bytes were whole packets */
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

static void on_readable(conn *c) {
  for (bool more = true; more;) {
    ssize_t n = recv(c->fd, c->in + c->in_len, c->in_cap - c->in_len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (n <= 0)
      fail(EXIT_CUT_OFF, "the broker closed %c%d after %llu sent, %llu delivered",
           "psb"[c->role], c->id, (unsigned long long)sum.sent, (unsigned long long)sum.delivered);
    c->in_len += n;
    size_t used = parse(c, now_ns());
    memmove(c->in, c->in + used, c->in_len - used);
    c->in_len -= used;
    more = (size_t)n >= c->in_cap / 2;  /* a full buffer: there is likely more */
  }
  if (c->out_len && !c->blocked) flush(c);
}

static void pump(int wait_ms) {
  struct epoll_event events[256];
  int n = epoll_wait(epoll, events, 256, wait_ms);
  for (int i = 0; i < n; i++) {
    conn *c = events[i].data.ptr;
    if (events[i].events & EPOLLOUT) flush(c);
    if (events[i].events & ~EPOLLOUT) on_readable(c);
  }
}

/* ---- Connecting ----------------------------------------------------------------------------- */

static void open_conn(conn *c, enum role role, int id) {
  static const size_t room[] = {65536, 262144, 1024};
  int one = 1;
  struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(opt.port)};
  inet_pton(AF_INET, opt.host, &peer.sin_addr);
  *c = (conn){.fd = socket(AF_INET, SOCK_STREAM, 0), .role = role, .id = id};
  if (c->fd < 0 || connect(c->fd, (void *)&peer, sizeof peer) < 0)
    fail(EXIT_REFUSED, "connection %d: %s", id, strerror(errno));
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(c->fd, F_SETFL, O_NONBLOCK);
  c->in_cap = room[role] > 3u * opt.payload_max ? room[role] : 3u * opt.payload_max;
  c->in = grown(NULL, role == BACKGROUND ? (c->in_cap = room[role]) : c->in_cap);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
  epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
  put_connect(c);
}

static bool settled(const conn *c) { return c->ready && c->subacks_due <= 0; }

static void settle(conn *c) {
  flush(c);
  for (u64 start = now_ns(); !settled(c); pump(10))
    if (now_ns() - start > 20 * SECOND) fail(EXIT_REFUSED, "no CONNACK or SUBACK in 20 s");
}

static void open_subscriber(conn *c, int id) {
  char filter[96];
  open_conn(c, SUBSCRIBER, id);
  c->next_expected = zeroed(opt.publishers, sizeof(u32));
  for (int topic = 0; topic < (opt.wildcard ? 1 : opt.topics); topic++) {
    if (opt.wildcard) snprintf(filter, sizeof filter, "%s/#", opt.prefix);
    else snprintf(filter, sizeof filter, "%s/t%d", opt.prefix, topic);
    put_subscribe(c, filter);
  }
  settle(c);
}

static void put_background_filter(conn *c, int k) {  /* none matches PREFIX/tN, all are near it */
  static const char *shape[] = {"%s/other/%d", "%s/+/none%d", "%s/none/%d", "%s/none%d/#"};
  char filter[96];
  snprintf(filter, sizeof filter, shape[k % 4], opt.prefix, k);
  put_subscribe(c, filter);
}

static void open_background(void) {  /* a few at a time, as a fleet would after a power cut */
  conn *clients = zeroed(opt.background, sizeof *clients);
  int started = 0, done = 0;
  long rss_before = resident_kib(opt.broker);
  usage before = usage_of(opt.broker);
  u64 start = now_ns();
  while (done < opt.background) {
    for (; started < opt.background && started - done < CONNECTING_MAX; started++) {
      conn *c = clients + started;
      open_conn(c, BACKGROUND, started);
      for (int k = 0; k < opt.filters; k++) put_background_filter(c, started * opt.filters + k);
      flush(c);
    }
    pump(100);
    while (done < started && settled(clients + done)) done++;
  }
  double seconds = (now_ns() - start) / 1e9;
  usage broker = usage_since(opt.broker, before);
  for (u64 end = now_ns() + SECOND; now_ns() < end;) pump(100);  /* let buffers be given back */
  printf("\"background\":%d,\"connects_per_s\":%.0f,\"broker_us_per_connect\":%.2f,"
         "\"bytes_per_connection\":%.0f,",
         done, done / seconds, broker.cpu_s * 1e6 / done,
         (resident_kib(opt.broker) - rss_before) * 1024.0 / done);
}

/* ---- The run -------------------------------------------------------------------------------- */

static long long least(long long a, long long b) { return a < b ? a : b; }

static long long outstanding(const conn *c) {
  return c->sent - c->forgiven - c->delivered / opt.subscribers;
}

static bool publish_saturated(u64 now) {  /* returns whether any publisher could go on at once */
  static int first;
  bool going = false;
  for (int k = 0; k < opt.publishers; k++) {
    conn *c = publishers + (first + k) % opt.publishers;
    if (c->blocked || c->out_len) continue;
    long long allowed = opt.per_write ? opt.per_write : INT32_MAX;
    if (opt.qos) allowed = least(allowed, opt.window - c->inflight);
    if (opt.credit) allowed = least(allowed, opt.credit - outstanding(c));
    if (opt.messages) allowed = least(allowed, (long long)(opt.messages - sum.sent));
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
      if (k >= due || (opt.qos && c->inflight >= opt.window)) break;
      put_publish(c, start + (u64)(k * 1e9 / opt.rate));
    }
    if (c->out_len && !c->blocked) flush(c);
  }
}

static bool all_arrived(void) {
  if (sum.delivered < sum.sent * opt.subscribers) return false;
  return !opt.qos || sum.acked >= sum.sent;
}

static void forgive(void) {  /* credit that never came back: the broker has dropped messages */
  for (int i = 0; i < opt.publishers; i++) {
    long long lost = outstanding(publishers + i);
    publishers[i].forgiven += lost;
    sum.forgiven += lost;
  }
}

typedef struct { u64 start, published, last_delivery, end; } times;

static times run(void) {
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

static long long report(times t, usage broker, usage generator) {
  double seconds = (t.end - t.start) / 1e9;
  double publishing = (t.published - t.start) / 1e9;
  double delivering = (t.last_delivery - t.start) / 1e9;
  u64 units = sum.delivered ? sum.delivered : sum.sent ? sum.sent : 1;
  long long lost = (long long)(sum.sent * opt.subscribers - sum.delivered);
  printf("\"sent\":%llu,\"sent_per_s\":%.0f,\"delivered\":%llu,\"delivered_per_s\":%.0f,"
         "\"acked\":%llu,\"acked_per_s\":%.0f,\"lost\":%lld,\"duplicated\":%llu,"
         "\"reordered\":%llu,",
         (unsigned long long)sum.sent, sum.sent / publishing, (unsigned long long)sum.delivered,
         sum.delivered / delivering, (unsigned long long)sum.acked, sum.acked / seconds, lost,
         (unsigned long long)sum.duplicated, (unsigned long long)sum.reordered);
  printf("\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,", percentile_us(50),
         percentile_us(90), percentile_us(99), latency_max / 1e3);
  printf("\"seconds\":%.3f,\"broker_cpu_s\":%.3f,\"broker_wait_s\":%.3f,"
         "\"generator_cpu_s\":%.3f,\"generator_wait_s\":%.3f,\"broker_us_per_message\":%.4f,",
         seconds, broker.cpu_s, broker.wait_s, generator.cpu_s, generator.wait_s,
         broker.cpu_s * 1e6 / units);
  return lost;
}

static long long measure(void) {
  build_frames();
  if (opt.credit < 0) {
    opt.credit = 4194304 / frames[sizes - 1].len;
    opt.credit = opt.credit < 64 ? 64 : least(opt.credit, 20000);
  }
  if (!opt.subscribers || opt.rate > 0) opt.credit = 0;
  if (opt.credit && (opt.credit /= opt.publishers) < 1) opt.credit = 1;
  publishers = zeroed(opt.publishers, sizeof *publishers);
  subscribers = zeroed(opt.subscribers, sizeof *subscribers);
  for (int i = 0; i < opt.subscribers; i++) open_subscriber(subscribers + i, i);
  for (int i = 0; i < opt.publishers; i++) {
    open_conn(publishers + i, PUBLISHER, i);
    publishers[i].topic = i % opt.topics;
    settle(publishers + i);
  }
  nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  usage broker = usage_of(opt.broker), generator = usage_of(getpid());
  times t = run();
  return report(t, usage_since(opt.broker, broker), usage_since(getpid(), generator));
}

/* ---- Command line --------------------------------------------------------------------------- */

static void read_sizes(const char *text) {
  const char *colon = strchr(text, ':');
  opt.payload_min = atoi(text);
  opt.payload_max = colon ? atoi(colon + 1) : opt.payload_min;
  if (opt.payload_min < PAYLOAD_BYTES_MIN || opt.payload_max < opt.payload_min)
    fail(EXIT_USAGE, "-s %s: sizes start at %d and do not fall", text, PAYLOAD_BYTES_MIN);
}

static void read_options(int argc, char **argv) {
  const char *letters = "B:D:F:H:I:P:RS:W:b:c:d:e:i:n:p:q:r:s:t:w:x:";
  for (int letter; (letter = getopt(argc, argv, letters)) != -1;) switch (letter) {
    case 'B': opt.broker = atoi(optarg); break;
    case 'D': opt.drain = atof(optarg); break;
    case 'F': opt.wildcard = optarg[0] == 'w'; break;
    case 'H': opt.host = optarg; break;
    case 'I': opt.background = atoi(optarg); break;
    case 'P': opt.publishers = atoi(optarg); break;
    case 'R': opt.random_topics = true; break;
    case 'S': opt.subscribers = atoi(optarg); break;
    case 'W': opt.wall_max = atoi(optarg); break;
    case 'b': opt.per_write = atoi(optarg); break;
    case 'c': opt.credit = atoll(optarg); break;
    case 'd': opt.seconds = atof(optarg); break;
    case 'e': random_state = strtoul(optarg, NULL, 10) * 2654435761u | 1; break;
    case 'i': opt.filters = atoi(optarg); break;
    case 'n': opt.messages = strtoull(optarg, NULL, 10); break;
    case 'p': opt.port = atoi(optarg); break;
    case 'q': opt.qos = atoi(optarg); break;
    case 'r': opt.rate = atof(optarg); break;
    case 's': read_sizes(optarg); break;
    case 't': opt.topics = atoi(optarg); break;
    case 'w': opt.window = atoi(optarg); break;
    case 'x': opt.prefix = optarg; break;
    default: fail(EXIT_USAGE, "the options are listed at the top of mqload.c");
  }
  if (!opt.port) fail(EXIT_USAGE, "-p PORT is needed");
  if (strlen(opt.prefix) > 32) fail(EXIT_USAGE, "-x: at most 32 bytes");
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
