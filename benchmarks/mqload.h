/* What the parts of mqload share. mqload.c says what the program does and how it is used.
 *
 *   mqload.c          the run: connections, windows, credit, the books, the command line
 *   mqload_drain.c    the other run: a backlog is made first, consumers then empty it
 *   mqload_background.c   clients that connect and stay silent
 *   mqload_payload.c  what messages carry; mqload_fields.c  what entries of streams carry (-O)
 *   mqload_measure.c  latency histograms; CPU time and memory of a process
 *   mqload_report.c   the line of JSON at the end
 *   mqload_tls.c, mqload_websocket.c   what may be around the bytes of a protocol
 *   mqload_mqtt.c     MQTT 3.1.1 and 5      one `protocol` each: how to greet, to subscribe, to
 *   mqload_resp.c     RESP: PUBLISH, XADD,  publish, to consume and to read, and nothing about
 *                     XREADGROUP            rates
 *   mqload_nats.c     NATS: PUB, SUB
 *   mqload_binary.c   the 16-byte frames of the binary protocol
 *   mqload_queue.c    the protobuf frames of the queue protocol
 */
#ifndef MQLOAD_H
#define MQLOAD_H
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

#define SECOND 1000000000ull
enum { PAYLOAD_BYTES_MIN = 16, NAME_BYTES_MAX = 96, PAGE_ENTRIES = 500, JOBS_MAX = 1024 };
enum { EXIT_USAGE = 1, EXIT_REFUSED = 2, EXIT_CUT_OFF = 3, EXIT_WATCHDOG = 4, EXIT_LOSS = 5 };

/* A consumer takes what waits in a group, and settles it; a holder takes it and keeps it. An
 * auditor connects when the run is over and looks at what the broker has kept. */
enum role { PUBLISHER, SUBSCRIBER, BACKGROUND, AUDITOR, CONSUMER, HOLDER };

/* How a consumer settles a batch: each job or all in one request, with the request for the next
 * batch right behind it; all, and the next batch when that is answered; one job after the other,
 * each when the last is answered. */
enum style { EACH, MANY, TURN, ONE };

/* Who gets what: all topics, by a filter each or by one; a part of the topics, and with OWN each
 * publisher keeps to one topic; a share of all messages. */
enum spread { ALL, WILD, PART, OWN, SHARE };

typedef struct { u64 high, low; } job;   /* the id by which it is settled: a lease, or a-b */

typedef struct {
  int fd, id, subacks_due;
  enum role role;
  bool ready, blocked;             /* greeted; the socket takes no more for now */
  u8 *in, *out;
  size_t in_len, in_cap, out_sent, out_len, out_cap;
  int topic, inflight;             /* publisher: next topic, unanswered publishes */
  uint16_t packet_id;
  u32 sequence;
  u64 sent, delivered, forgiven;   /* delivered: over all subscribers; forgiven: taken for lost */
  u64 checksum;                    /* of the sequences delivered */
  u64 asked, answered, *sent_at;   /* publisher: frames and replies so far; when frames left */
  u64 last_id[2];                  /* newest id that the broker gave; ids must rise */
  u32 *next_expected;              /* subscriber and auditor: next sequence, by publisher */
  job *jobs;                       /* consumer: the batch at hand, and how much of it is settled */
  int jobs_len, jobs_settled;
  bool busy, settling;             /* consumer: asked for a batch; has it, and settles it */
  u64 asked_at, polled_at;         /* consumer: when it asked last, and for the batch at hand */
  struct ssl_st *tls;              /* NULL: clear text */
  struct websocket *websocket;     /* NULL: no frames around the bytes */
} conn;

/* payload_at: of the first message; each further one of a frame begins a stride later. */
typedef struct { u8 *bytes; int len, payload_at, payload, stride; } frame;

typedef struct {
  const char *name;                /* as -m has it */
  const char *wildcard;            /* shape of the filter for all topics; NULL if there is none */
  char separator;                  /* of the levels of a topic; a slash if there is none */
  bool answers;                    /* every publish is answered, whatever the QoS */
  int window, subscribers;         /* defaults of -w and -S */
  void (*greet)(conn *);
  void (*subscribe)(conn *, const char *topic);
  frame (*build)(const char *topic, int payload);
  void (*load)(void);                                 /* instead of build: frames from a file */
  void (*number)(conn *, u8 *bytes, int payload_at);  /* what differs besides the payload */
  size_t (*parse)(conn *, u64 now);                   /* returns how many bytes were whole */
  void (*audit)(void);                                /* NULL: the broker need not keep anything */
  int jobs;                                           /* default of -j; 0: there are none */
  bool pushes;                                        /* jobs come by themselves; no answers */
  void (*prepare)(conn *);                            /* once, before anybody consumes; or NULL */
  void (*poll)(conn *, int most);                     /* ask for jobs; if there is one: a drain */
  void (*settle)(conn *, const job *, int count);     /* so many with one request */
} protocol;

extern const protocol MQTT, NATS, RESP_PUBSUB, XADD, XREADGROUP;
extern const protocol BINARY_PUBLISH, BINARY_SUBSCRIBE, BINARY_SIGNED;
extern const protocol QUEUE_PRODUCE, QUEUE_SUBSCRIBE, QUEUE_POLL, QUEUE_PUSH;
extern const protocol *mode;               /* the one that is spoken */

extern struct options {
  const char *host, *prefix, *frames;
  int port, publishers, subscribers, background, filters, topics, qos, per_write, window, broker;
  int payload_min, payload_max, wall_max, per_frame, jobs, consumers, version, user_properties;
  bool tls, websocket, random_topics, acknowledge, producer_ids, sleeps, noise, fields;
  bool answered;                   /* whether publishes are, in this mode and at this QoS */
  int fan;                         /* subscribers that a message reaches */
  enum style style;
  enum spread spread;
  u64 messages, held, kept, warm_up;
  long long credit;
  double seconds, rate, drain;
} opt;

/* stored: messages that the auditor found; replayed: acknowledged ones that came again, or would;
 * settled: of the jobs delivered, those that are done */
extern struct totals {
  u64 sent, delivered, acked, duplicated, reordered, damaged, forgiven, stored, replayed,
      settled;
} sum;

typedef struct { u64 start, published, last_delivery, end; } times;

extern conn *publishers, *subscribers;
extern frame *frames;

/* mqload.c */
void fail(int status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
void *grown(void *memory, size_t bytes);
void *zeroed(size_t count, size_t bytes);
u8 *reserve(conn *c, size_t bytes);
void pump(int wait_ms);
void open_conn(conn *c, enum role role, int id);
void close_conn(conn *c);
void subscribe_to(conn *c, const char *topic);
bool is_settled(const conn *c);
void settle(conn *c);
void flush(conn *c);
void put_publish(conn *c, u64 stamp);
times run(void);
void name_topic(char *name, int topic);
u32 random_u32(void);
void count_reply(conn *c, u64 now);
void count_delivery(conn *c, const u8 *payload, size_t len, u64 now);
void count_id(conn *c, u64 high, u64 low);

/* mqload_background.c */
void open_background(void);

/* mqload_payload.c */
void make_text(void);
void fill_payload(u8 *payload, int bytes);
void vary_payload(u8 *payload, int bytes);
void put_stamp(u8 *payload, u64 stamp, u32 id, u32 sequence);
bool is_ours(const u8 *payload, size_t len, u32 id);

/* mqload_fields.c */
void put_fields(conn *c);
void stamp_of_fields(const u8 *const *bytes, const size_t *len, int count, u8 *stamp);

/* mqload_tls.c: as send and recv; errno is EAGAIN if the socket takes or has no more for now */
void begin_tls(conn *c);
void end_tls(conn *c);
ssize_t send_wire(conn *c, const u8 *data, size_t len);
ssize_t receive_wire(conn *c, u8 *data, size_t len);

/* mqload_websocket.c: the same, in frames if -Z asks for them */
void begin_websocket(conn *c);
void end_websocket(conn *c);
ssize_t send_some(conn *c, const u8 *data, size_t len);
ssize_t receive_some(conn *c, u8 *data, size_t len);

/* mqload_drain.c */
void make_backlog(void);
times drain(void);
void on_job(conn *c, job id, const u8 *payload, size_t len);
void on_batch_end(conn *c);
void on_settled(conn *c, int count);

/* mqload_measure.c */
enum { BUCKETS = 64 * 60 };
typedef struct { u64 buckets[BUCKETS], count, max; } histogram;   /* of nanoseconds */
typedef struct { double cpu_s, wait_s; } usage;   /* wait: runnable, but another had the core */
extern histogram latencies, reply_latencies;      /* of deliveries or batches; of replies */
u64 now_ns(void);
void record(histogram *h, u64 ns);
double percentile_us(const histogram *h, double percent);
usage usage_of(int pid);
usage usage_since(int pid, usage before);
long resident_kib(int pid);

/* mqload_report.c */
void report(times t, usage broker, usage generator);
long long report_flaws(void);
#endif
