/* WebSocket for the load generator (-Z): every send and receive passes here, and goes on to TLS or
 * the socket. A send is one binary frame, masked as the standard demands; what comes is stripped
 * of its frames. The broker is expected to follow the rules: nothing is checked. */
#include "mqload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAME_BYTES_MAX = 65536, HEAD_BYTES_MAX = 14 };

struct websocket {
  u8 head[HEAD_BYTES_MAX];         /* of the frame that is being read, as far as it has come */
  int head_len;
  u64 left;                        /* payload of that frame that is yet to come */
  u8 out[FRAME_BYTES_MAX + HEAD_BYTES_MAX];
  size_t out_sent, out_len;        /* of the frame that is being written */
};

static const u8 mask[4] = {0x5a, 0xc3, 0x96, 0x0f};   /* any does, but 0 would be cheap to undo */

void begin_websocket(conn *c) {
  static const char request[] =
      "GET /mqtt HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
      "Sec-WebSocket-Protocol: mqtt\r\n\r\n";
  if (!opt.websocket) return;
  send_wire(c, (const u8 *)request, sizeof request - 1);
  char answer[2048];
  size_t len = 0;
  while (len < 4 || memcmp(answer + len - 4, "\r\n\r\n", 4)) {   /* nothing may be read behind it */
    if (len == sizeof answer || receive_wire(c, (u8 *)answer + len, 1) != 1)
      fail(EXIT_REFUSED, "WebSocket: no answer to the handshake");
    len++;
  }
  if (memcmp(answer, "HTTP/1.1 101", 12)) fail(EXIT_REFUSED, "WebSocket: %.40s", answer);
  c->websocket = zeroed(1, sizeof *c->websocket);
}

void end_websocket(conn *c) { free(c->websocket); }

static void put_frame(struct websocket *w, const u8 *data, size_t len) {
  u8 *at = w->out;
  *at++ = 0x82;
  if (len < 126) {
    *at++ = 0x80 | len;
  } else if (len < 65536) {
    *at++ = 0x80 | 126;
    *at++ = len >> 8;
    *at++ = len;
  } else {
    *at++ = 0x80 | 127;
    for (int shift = 56; shift >= 0; shift -= 8) *at++ = (u64)len >> shift;
  }
  memcpy(at, mask, 4);
  at += 4;
  for (size_t i = 0; i < len; i++) at[i] = data[i] ^ mask[i & 3];
  w->out_sent = 0;
  w->out_len = at + len - w->out;
}

static bool write_out(conn *c) {   /* whether all of the frame is sent */
  struct websocket *w = c->websocket;
  while (w->out_sent < w->out_len) {
    ssize_t n = send_wire(c, w->out + w->out_sent, w->out_len - w->out_sent);
    if (n < 0) return false;
    w->out_sent += n;
  }
  w->out_len = w->out_sent = 0;
  return true;
}

/* While a frame is not sent as a whole, its last byte counts as not sent, so that the caller comes
 * again. */
ssize_t send_some(conn *c, const u8 *data, size_t len) {
  struct websocket *w = c->websocket;
  if (!w) return send_wire(c, data, len);
  if (w->out_len) return write_out(c) ? 1 : -1;
  if (len > FRAME_BYTES_MAX) len = FRAME_BYTES_MAX;
  put_frame(w, data, len);
  if (write_out(c)) return len;
  if (len > 1) return len - 1;
  return -1;
}

static int head_bytes(const struct websocket *w) {   /* as far as they are known */
  if (w->head_len < 2 || w->head[1] < 126) return 2;
  return w->head[1] == 126 ? 4 : 10;
}

static size_t take_head(struct websocket *w, const u8 *data, size_t len) {
  size_t used = 0;
  while (used < len && w->head_len < head_bytes(w)) w->head[w->head_len++] = data[used++];
  if (w->head_len < head_bytes(w)) return used;
  w->left = w->head_len == 2 ? w->head[1] : 0;
  for (int i = 2; i < w->head_len; i++) w->left = w->left << 8 | w->head[i];
  w->head_len = 0;
  return used;
}

static size_t strip(struct websocket *w, u8 *data, size_t len) {
  size_t from = 0, to = 0;
  while (from < len) {
    if (!w->left) {
      from += take_head(w, data + from, len - from);
      continue;
    }
    size_t part = len - from < w->left ? len - from : w->left;
    memmove(data + to, data + from, part);
    from += part;
    to += part;
    w->left -= part;
  }
  return to;
}

ssize_t receive_some(conn *c, u8 *data, size_t len) {
  if (!c->websocket) return receive_wire(c, data, len);
  for (;;) {
    ssize_t n = receive_wire(c, data, len);
    if (n <= 0) return n;
    if ((n = strip(c->websocket, data, n))) return n;
  }
}
