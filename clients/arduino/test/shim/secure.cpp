// See WiFiClientSecure.h. Nothing here waits but the handshake, as on boards.
#ifdef WITH_TLS
#include "WiFiClientSecure.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>

namespace {
const int kHandshakeMs = 5000;
}  // namespace

WiFiClientSecure::~WiFiClientSecure() {
  WiFiClientSecure::stop();
  SSL_CTX_free(context_);
}

bool WiFiClientSecure::setCACert(const char* pem) {
  BIO* const source = BIO_new_mem_buf(pem, -1);
  X509* const authority = PEM_read_bio_X509(source, nullptr, nullptr, nullptr);
  BIO_free(source);
  if (!authority) return false;
  SSL_CTX_free(context_);
  context_ = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  const bool isKnown = X509_STORE_add_cert(SSL_CTX_get_cert_store(context_), authority) == 1;
  X509_free(authority);
  return isKnown;
}

int WiFiClientSecure::connect(const char* host, uint16_t port) {
  stop();
  if (!WiFiClient::connect(host, port)) return 0;
  if (!context_ || shakeHands(host)) return 1;
  stop();
  return 0;
}

bool WiFiClientSecure::shakeHands(const char* host) {
  session_ = SSL_new(context_);
  X509_VERIFY_PARAM* const expected = SSL_get0_param(session_);
  if (X509_VERIFY_PARAM_set1_ip_asc(expected, host) != 1) SSL_set1_host(session_, host);
  SSL_set_fd(session_, socket());
  for (;;) {
    const int result = SSL_connect(session_);
    if (result == 1) return true;
    const int error = SSL_get_error(session_, result);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return false;
    const short events = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    struct pollfd wait = {socket(), events, 0};
    if (poll(&wait, 1, kHandshakeMs) != 1) return false;
  }
}

// Whether the connection is over, by the result of a call.
bool WiFiClientSecure::isOver(int result) {
  if (result > 0) return false;
  const int error = SSL_get_error(session_, result);
  isBroken_ |= error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE;
  return isBroken_;
}

size_t WiFiClientSecure::write(const uint8_t* data, size_t size) {
  if (!session_) return WiFiClient::write(data, size);
  if (isBroken_ || !size) return 0;
  const int n = SSL_write(session_, data, static_cast<int>(size));
  return isOver(n) || n < 0 ? 0 : static_cast<size_t>(n);
}

// Of the record that has begun to arrive, what can be read.
int WiFiClientSecure::available() {
  if (!session_) return WiFiClient::available();
  uint8_t byte;
  if (isBroken_ || isOver(SSL_peek(session_, &byte, 1))) return 0;
  return SSL_pending(session_);
}

int WiFiClientSecure::read(uint8_t* to, size_t size) {
  if (!session_) return WiFiClient::read(to, size);
  if (isBroken_) return -1;
  const int n = SSL_read(session_, to, static_cast<int>(size));
  isOver(n);
  return n > 0 ? n : -1;
}

void WiFiClientSecure::stop() {
  SSL_free(session_);
  session_ = nullptr;
  isBroken_ = false;
  WiFiClient::stop();
}

uint8_t WiFiClientSecure::connected() {
  if (!session_) return WiFiClient::connected();
  return available() > 0 || !isBroken_;
}
#endif
