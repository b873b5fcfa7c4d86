/* The line of JSON: rates, latencies, what both sides used, and what went wrong. */
#include "mqload.h"

#include <stdio.h>

static long long losses(void) {
  if (mode->poll) return (long long)(opt.messages - sum.delivered);
  if (opt.subscribers) return (long long)(sum.sent * opt.fan - sum.delivered);
  if (!opt.answered) return 0;
  if (sum.acked < sum.sent) return (long long)(sum.sent - sum.acked);
  return mode->audit ? (long long)(sum.sent - sum.stored) : 0;
}

static void report_latency(const histogram *h) {
  printf("\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,",
         percentile_us(h, 50), percentile_us(h, 90), percentile_us(h, 99), percentile_us(h, 99.9),
         h->max / 1e3);
  double reply = percentile_us(&reply_latencies, 50);
  printf("\"reply_p50_us\":%.1f,\"beyond_reply_p50_us\":%.1f,", reply,
         percentile_us(h, 50) - reply);
}

void report(times t, usage broker, usage generator) {
  double seconds = (t.end - t.start) / 1e9;
  double publishing = (t.published - t.start) / 1e9;
  double delivering = (t.last_delivery - t.start) / 1e9;
  u64 units = sum.delivered ? sum.delivered : sum.sent ? sum.sent : 1;
  printf("\"sent\":%llu,\"sent_per_s\":%.0f,\"delivered\":%llu,\"delivered_per_s\":%.0f,"
         "\"acked\":%llu,\"acked_per_s\":%.0f,\"settled\":%llu,\"settled_per_s\":%.0f,",
         (unsigned long long)sum.sent, sum.sent / publishing, (unsigned long long)sum.delivered,
         sum.delivered / delivering, (unsigned long long)sum.acked, sum.acked / seconds,
         (unsigned long long)sum.settled, sum.settled / seconds);
  report_latency(latencies.count ? &latencies : &reply_latencies);
  printf("\"seconds\":%.3f,\"broker_cpu_s\":%.3f,\"broker_wait_s\":%.3f,"
         "\"generator_cpu_s\":%.3f,\"generator_wait_s\":%.3f,\"broker_us_per_message\":%.4f,",
         seconds, broker.cpu_s, broker.wait_s, generator.cpu_s, generator.wait_s,
         broker.cpu_s * 1e6 / units);
}

static void find_swapped(void) {   /* a duplicate at one subscriber may hide another's loss */
  for (int i = 0; opt.fan == 1 && i < opt.publishers; i++) {
    const conn *c = publishers + i;
    u64 whole = (u64)c->sequence * (c->sequence - 1ull) / 2;
    if (c->sequence && c->delivered == c->sequence && c->checksum != whole) sum.duplicated++;
  }
}

long long report_flaws(void) {
  long long lost = losses();
  find_swapped();
  printf("\"lost\":%lld,\"duplicated\":%llu,\"reordered\":%llu,\"damaged\":%llu,"
         "\"replayed\":%llu,",
         lost, (unsigned long long)sum.duplicated, (unsigned long long)sum.reordered,
         (unsigned long long)sum.damaged, (unsigned long long)sum.replayed);
  return lost;
}
