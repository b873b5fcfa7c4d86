// See Arduino.h and WiFi.h: the few functions of a board, over POSIX.
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "Arduino.h"
#include "WiFi.h"

namespace {

const int kConnectMs = 3000;
uint64_t added = 0;

uint64_t microseconds() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000u + static_cast<uint64_t>(now.tv_nsec) / 1000u;
}

}  // namespace

WiFiClass WiFi;
HardwareSerial Serial;
EspClass ESP;

// As on a board, both wrap: millis() after 49 days.
unsigned long millis() { return static_cast<uint32_t>(microseconds() / 1000u + added); }
unsigned long micros() { return static_cast<uint32_t>(microseconds() + added * 1000u); }
void shimAddMillis(uint64_t ms) { added += ms; }

void delay(unsigned long ms) {
  struct timespec pause;
  pause.tv_sec = static_cast<time_t>(ms / 1000);
  pause.tv_nsec = static_cast<long>(ms % 1000) * 1000000;
  nanosleep(&pause, nullptr);
}

// Whoever waits for the network calls this: there is nothing else to do for 100 microseconds.
void yield() {
  struct timespec pause = {0, 100000};
  nanosleep(&pause, nullptr);
}

int HardwareSerial::printf(const char* format, ...) {
  va_list values;
  va_start(values, format);
  const int size = vprintf(format, values);
  va_end(values);
  return size;
}

bool WiFiClient::dial(const char* host, uint16_t port) {
  struct sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  if (inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1", &to.sin_addr) != 1) {
    return false;
  }
  const int result = ::connect(socket_, reinterpret_cast<struct sockaddr*>(&to), sizeof to);
  if (result == 0) return true;
  struct pollfd wait = {socket_, POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof error;
  return errno == EINPROGRESS && poll(&wait, 1, kConnectMs) == 1 &&
         getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

int WiFiClient::connect(const char* host, uint16_t port) {
  stop();
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return 0;
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (dial(host, port)) return 1;
  stop();
  return 0;
}

size_t WiFiClient::write(const uint8_t* data, size_t size) {
  if (socket_ < 0) return 0;
  const ssize_t n = send(socket_, data, size, MSG_NOSIGNAL);
  if (n < 0 && errno != EAGAIN && errno != EINTR) isAtEnd_ = true;
  return n < 0 ? 0 : static_cast<size_t>(n);
}

int WiFiClient::available() {
  int waiting = 0;
  return socket_ < 0 || ioctl(socket_, FIONREAD, &waiting) != 0 ? 0 : waiting;
}

int WiFiClient::read(uint8_t* to, size_t size) {
  if (socket_ < 0) return -1;
  const ssize_t n = recv(socket_, to, size, 0);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) isAtEnd_ = true;
  return static_cast<int>(n);
}

void WiFiClient::stop() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  isAtEnd_ = false;
}

uint8_t WiFiClient::connected() {
  if (socket_ < 0) return 0;
  uint8_t byte;
  const ssize_t n = recv(socket_, &byte, 1, MSG_PEEK);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) isAtEnd_ = true;
  return n > 0 || !isAtEnd_;
}
