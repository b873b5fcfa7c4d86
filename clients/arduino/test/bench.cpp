// How fast the library is on this machine: bench HOST PORT publish|receive COUNT
//
// publish: messages of 64 bytes, PENSTOCK_WINDOW of them unanswered. receive: so many messages that
// wait for a new subscriber, each acknowledged. Both print messages per second and CPU for each.
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <Penstock.h>
#include <WiFi.h>

namespace {

unsigned long received = 0;

bool onMessage(void*, const PenstockMessage& message) {
  received += message.isLast();
  return true;
}

// A board has nothing else to do; here the broker needs the processor meanwhile.
void rest(WiFiClient& network) {
  struct pollfd ready = {network.socket(), POLLIN, 0};
  poll(&ready, 1, 10);
}

double cpuSeconds() {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

}  // namespace

int main(int, char** arguments) {
  static WiFiClient network;
  static PenstockClient<4096, 8192> client(network);
  const bool isPublishing = !strcmp(arguments[3], "publish");
  const unsigned long count = strtoul(arguments[4], nullptr, 10);
  char id[32] = "";  // without one, the broker does not look for repetitions
  if (!getenv("ANONYMOUS")) snprintf(id, sizeof id, "bench-%d", static_cast<int>(getpid()));
  client.onMessage(onMessage);
  client.begin(arguments[1], static_cast<uint16_t>(atoi(arguments[2])));
  if (!client.connect(id)) return 1;
  const unsigned long began = micros();
  const double cpu = cpuSeconds();
  if (isPublishing) {
    const char payload[65] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    unsigned long sent = 0;
    while (client.stats().acked < count) {
      while (sent < count && client.publish("bench/arduino", payload, 64)) ++sent;
      rest(network);
      client.loop();
    }
  } else {
    client.subscribe("bench/arduino");
    while (received < count) {
      rest(network);
      client.loop();
    }
  }
  client.flush(10000);
  const double seconds = static_cast<double>(micros() - began) / 1e6;
  printf("%s: %.0f msg/s, %.2f us of CPU each\n", arguments[3],
         static_cast<double>(count) / seconds,
         (cpuSeconds() - cpu) * 1e6 / static_cast<double>(count));
  return 0;
}
