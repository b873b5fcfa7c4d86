// What a sketch sees: messages, results, states, errors, counters, storage.
#pragma once

#include <string.h>

#include "bytes.h"

enum class PenstockState : uint8_t {
  Disconnected,  // not started, or disconnect() was called
  Connecting,    // no connection now; loop() makes one
  Connected,
  Refused,    // the broker refuses the login; loop() tries again, rarely
  TakenOver,  // another connection has this client id; nothing more happens until connect()
};

enum class PenstockError : uint8_t {
  None,
  Full,         // the offline buffer, or the table of subscriptions, has no room
  TooLarge,     // larger than the offline buffer
  BadTopic,     // empty, with + or #, or too long
  NoKey,        // setSigningKey() comes first
  NoRandom,     // this board has no source of random bytes: setRandom() comes first
  NoTime,       // a signed publish waits until the clock is set
  NotBegun,     // begin() comes first
  Unsupported,  // by this version of the broker
  Refused,      // by the broker; onPublished and onLost have its words
  NotReached,   // no connection within the time-out
  LoginFailed,
  TakenOver,
  NotABroker,  // the other end does not speak the protocol
};

enum class PenstockResult : uint8_t {
  Stored,   // on the broker's disk; in a cluster, on a majority of disks
  Refused,  // by the broker, for good: lastErrorText() has its words
  Dropped,  // pushed out of a full offline buffer
};

enum class PenstockSigner : uint8_t {
  None,      // not signed
  Verified,  // by a key of addVerificationKey()
  Unknown,   // signed by a key that is not known, or too large to be verified
  Bad,       // the signature is wrong
};

enum class PenstockLoss : uint8_t {
  Retention,     // the broker removed messages before this client had them; count says how many
  Oversize,      // a message was skipped: its topic, or all of it, is too large; count: its size
  Withheld,      // a message was not handed out: its signature is missing, unknown or wrong
  Subscription,  // the broker refused a subscription
  Notice,        // other words of the broker
};

enum class PenstockStart : uint8_t { Earliest, Latest, LastMessages, Since, Default = 0xff };

struct PenstockMessage {
  const char* topic;       // ends with a zero byte
  const uint8_t* payload;  // does not
  size_t topicLength;
  size_t length;
  uint32_t offset;  // of this piece: payloads larger than the buffer come in pieces
  uint32_t total;   // of all pieces
  uint64_t sequence;
  uint32_t keyId;
  PenstockSigner signer;

  bool isLast() const { return offset + length == total; }
  bool is(const char* text) const {
    return total == strlen(text) && length == total && !memcmp(payload, text, length);
  }
};

struct PenstockNews {
  PenstockLoss kind;
  const char* text;  // the broker's words, or the topic
  uint32_t count;
  uint64_t sequence;
};

struct PenstockStats {
  uint32_t sent, acked, refused, dropped;         // publishes
  uint32_t received, repeated, oversize, withheld;  // messages
  uint32_t connects;
};

// Where a subscription begins if the broker does not know this client id yet, and how many
// messages it may send ahead. Brokers older than HELLO ignore both.
struct PenstockSubscribe {
  uint64_t value = 0;  // of LastMessages: how many; of Since: ms since 1970
  PenstockStart start = PenstockStart::Default;
  uint16_t prefetch = 0;  // 0: as the broker likes; of a queue, as many as are remembered (JOBS)
};

// Memory that survives a restart. Each slot holds one piece of at most a few bytes more than the
// offline buffer. Saving replaces; it must be atomic (write, then rename).
class PenstockStore {
 public:
  virtual size_t load(uint8_t slot, uint8_t* to, size_t capacity) = 0;  // 0: nothing there
  virtual bool save(uint8_t slot, const uint8_t* data, size_t size) = 0;

 protected:
  ~PenstockStore() {}  // no delete through this: it would need a heap
};
