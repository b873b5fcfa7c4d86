/* A backlog is made, and then emptied: the second kind of run.
 *
 * One publisher makes the backlog; that takes no part in the time. A holder takes -l jobs and keeps
 * them. Then the consumers begin, all in one group: each asks for a batch, settles it as -A says,
 * and asks again. The run is over when everything is settled. Each message carries its number, so a
 * job that two consumers got, or none, is found out.
 *
 * With -u the backlog does not shrink: after each batch as many messages are published again. The
 * latency of a batch, poll to last answer, is then the figure: the cost of an operation at that
 * length of the backlog.
 */
#include "mqload.h"

#include <string.h>

static u8 *seen;                   /* a bit per message, by its number */
static u64 seen_len, held;
static conn *consumers;

/* ---- What consumers do ---------------------------------------------------------------------- */

static void ask(conn *c) {
  c->busy = true;
  c->asked_at = now_ns();
  mode->poll(c, opt.jobs);
}

static bool is_new(const u8 *payload, size_t len) {
  u32 id = UINT32_MAX, number = 0;
  if (len >= PAYLOAD_BYTES_MIN) {
    memcpy(&id, payload + 8, 4);
    memcpy(&number, payload + 12, 4);
  }
  if (!is_ours(payload, len, id) || number >= seen_len) {
    sum.damaged++;
    return false;
  }
  u8 bit = 1 << number % 8;
  if (seen[number / 8] & bit) {
    sum.duplicated++;
    return false;
  }
  seen[number / 8] |= bit;
  return true;
}

void on_job(conn *c, job id, const u8 *payload, size_t len) {
  bool counts = is_new(payload, len);
  if (c->role == HOLDER) {
    held += counts;
    return;
  }
  sum.delivered += counts;
  if (c->settling || c->jobs_len == JOBS_MAX)
    fail(EXIT_CUT_OFF, "c%d got jobs before its acknowledgements were answered", c->id);
  c->jobs[c->jobs_len++] = id;
}

void on_settled(conn *c, int count) {
  sum.settled += count;
  c->jobs_settled += count;
  if (c->jobs_settled < c->jobs_len) {
    if (opt.style == ONE) mode->settle(c, c->jobs + c->jobs_settled, 1);
    return;
  }
  c->jobs_len = c->jobs_settled = 0;
  c->settling = false;
  if (mode->pushes) return;
  record(&latencies, now_ns() - c->polled_at);
  if (opt.kept) c->busy = false;
  else if (opt.style >= TURN) ask(c);
}

void on_batch_end(conn *c) {
  if (c->role == HOLDER) {
    c->busy = false;
    return;
  }
  if (!c->jobs_len) {              /* another consumer was faster */
    if (sum.delivered < opt.messages) ask(c);
    return;
  }
  int count = c->jobs_len;
  bool apart = mode->pushes || opt.style == EACH;
  c->settling = true;
  c->polled_at = c->asked_at;
  if (apart)
    for (int k = 0; k < count; k++) mode->settle(c, c->jobs + k, 1);
  else
    mode->settle(c, c->jobs, opt.style == ONE ? 1 : count);
  if (mode->pushes) on_settled(c, count);
  else if (opt.style <= MANY) ask(c);
}

/* ---- Before the time runs ------------------------------------------------------------------- */

static void open_consumer(conn *c, enum role role, int id) {
  open_conn(c, role, id);
  c->jobs = zeroed(JOBS_MAX, sizeof *c->jobs);
  settle(c);
}

static void wait_for(const conn *c) {
  for (u64 start = now_ns(); c->busy || c->inflight; pump(5))
    if (now_ns() - start > 20 * SECOND) fail(EXIT_REFUSED, "no answer from the broker in 20 s");
}

static void hold(void) {
  conn *holder = zeroed(1, sizeof *holder);
  open_consumer(holder, HOLDER, 0);
  for (u64 before = held; held < opt.held; before = held) {
    u64 most = opt.held - held;
    holder->busy = true;
    mode->poll(holder, most < JOBS_MAX ? most : JOBS_MAX);
    flush(holder);
    wait_for(holder);
    if (held == before) fail(EXIT_REFUSED, "no more than %llu jobs", (unsigned long long)held);
  }
}

static u64 rounded_up(u64 messages, u64 step) { return (messages + step - 1) / step * step; }

void make_backlog(void) {
  u64 drained = rounded_up(opt.messages, opt.kept ? opt.jobs : 1);
  opt.messages = opt.held + (opt.kept ? opt.kept : drained);
  seen_len = rounded_up(opt.messages, opt.per_frame) + (opt.kept ? drained : 0);
  seen = zeroed(seen_len / 8 + 1, 1);
  run();
  if (sum.acked < sum.sent) fail(EXIT_REFUSED, "the backlog could not be made");
  opt.messages = opt.kept ? drained : sum.sent - opt.held;
  reply_latencies = (histogram){0};
  if (mode->prepare) mode->prepare(publishers);
  if (opt.held) hold();
  consumers = zeroed(opt.consumers, sizeof *consumers);
  for (int i = 0; i < opt.consumers; i++) open_consumer(consumers + i, CONSUMER, i);
}

/* ---- The run -------------------------------------------------------------------------------- */

static void turn_over(conn *c) {   /* one batch, and as many messages for it */
  ask(c);
  flush(c);
  wait_for(c);
  put_publish(publishers, now_ns());
  flush(publishers);
  wait_for(publishers);
}

static void empty(void) {
  u64 progress = now_ns(), before = 0;
  for (int i = 0; i < opt.consumers; i++) {
    ask(consumers + i);
    flush(consumers + i);
  }
  while (sum.settled < opt.messages && now_ns() - progress < (u64)(opt.drain * 1e9)) {
    pump(5);
    if (sum.settled != before) progress = now_ns();
    before = sum.settled;
  }
}

times drain(void) {
  times t = {.start = now_ns()};
  if (opt.kept)
    while (sum.settled < opt.messages) turn_over(consumers);
  else
    empty();
  t.published = t.last_delivery = t.end = now_ns();
  return t;
}
