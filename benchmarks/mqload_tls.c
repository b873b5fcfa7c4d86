/* TLS for the load generator: every send and receive passes here. Needs OpenSSL (-DWITH_TLS); the
 * broker's certificate is not verified, since it is the broker that is measured. */
#include "mqload.h"

#include <errno.h>
#include <sys/socket.h>

#ifdef WITH_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>

static SSL_CTX *context;

void begin_tls(conn *c) {
  if (!opt.tls) return;
  if (!context) {
    context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
  }
  c->tls = SSL_new(context);
  SSL_set_fd(c->tls, c->fd);
  if (SSL_connect(c->tls) != 1)
    fail(EXIT_REFUSED, "TLS: %s", ERR_reason_error_string(ERR_get_error()));
}

void end_tls(conn *c) {
  if (c->tls) SSL_free(c->tls);
}

static ssize_t outcome(conn *c, int result) {
  if (result > 0) return result;
  int error = SSL_get_error(c->tls, result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
    errno = EAGAIN;
    return -1;
  }
  if (error == SSL_ERROR_ZERO_RETURN) return 0;
  if (error != SSL_ERROR_SYSCALL || !errno) errno = EPROTO;
  return -1;
}

ssize_t send_wire(conn *c, const u8 *data, size_t len) {
  if (!c->tls) return send(c->fd, data, len, MSG_NOSIGNAL);
  ERR_clear_error();
  return outcome(c, SSL_write(c->tls, data, len));
}

ssize_t receive_wire(conn *c, u8 *data, size_t len) {
  if (!c->tls) return recv(c->fd, data, len, 0);
  ssize_t all = 0;
  while ((size_t)all < len) {      /* SSL_read returns one record at most */
    ERR_clear_error();
    ssize_t n = outcome(c, SSL_read(c->tls, data + all, len - all));
    if (n <= 0) return all ? all : n;
    all += n;
  }
  return all;
}
#else
void begin_tls(conn *c) {
  (void)c;
  if (opt.tls) fail(EXIT_USAGE, "built without TLS: install OpenSSL's headers (libssl-dev)");
}

void end_tls(conn *c) { (void)c; }

ssize_t send_wire(conn *c, const u8 *data, size_t len) {
  return send(c->fd, data, len, MSG_NOSIGNAL);
}

ssize_t receive_wire(conn *c, u8 *data, size_t len) { return recv(c->fd, data, len, 0); }
#endif
