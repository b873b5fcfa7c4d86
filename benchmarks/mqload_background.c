/* Clients that connect first, may subscribe to what nobody publishes, and then stay silent (-I,
 * -i): what they take of the broker, and what they cost those who do publish. */
#include "mqload.h"

#include <stdio.h>

enum { CONNECTING_MAX = 64 };

static void put_background_filter(conn *c, int k) {  /* none matches PREFIX/tN, all are near it */
  static const char *shape[] = {"%s/other/%d", "%s/+/none%d", "%s/none/%d", "%s/none%d/#"};
  char filter[NAME_BYTES_MAX];
  snprintf(filter, sizeof filter, shape[k % 4], opt.prefix, k);
  subscribe_to(c, filter);
}

void open_background(void) {  /* a few at a time, as a fleet would after a power cut */
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
    while (done < started && is_settled(clients + done)) done++;
  }
  double seconds = (now_ns() - start) / 1e9;
  usage broker = usage_since(opt.broker, before);
  for (u64 end = now_ns() + SECOND; now_ns() < end;) pump(100);  /* let buffers be given back */
  printf("\"background\":%d,\"connects_per_s\":%.0f,\"broker_us_per_connect\":%.2f,"
         "\"bytes_per_connection\":%.0f,",
         done, done / seconds, broker.cpu_s * 1e6 / done,
         (resident_kib(opt.broker) - rss_before) * 1024.0 / done);
}
