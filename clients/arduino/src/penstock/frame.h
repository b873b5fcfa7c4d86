// A frame of the binary protocol: a header of 16 bytes, topic, payload and, if signed, a trailer.
// docs/reference/binary-protocol.md of Penstock defines it; names are those of that page.
#pragma once

#include "bytes.h"

namespace penstock_lib {

enum Command : uint8_t {
  kSubscribe = 0x01,
  kUnsubscribe = 0x02,
  kPublish = 0x03,
  kMessage = 0x04,
  kAck = 0x05,
  kPing = 0x06,
  kPong = 0x07,
  kError = 0x08,
  kSignedPublish = 0x10,
  kSignedMessage = 0x11,
  kSignedPublish2 = 0x12,
  kSignedMessage2 = 0x13,
  kAuth = 0x14,
  kChallenge = 0x15,
  kHello = 0x20,
  kWelcome = 0x21,
  kPublish2 = 0x22,
  kWithheld = 0x23,
};

const uint32_t kHeaderSize = 16;
const uint8_t kTrailer1 = 64 + 4;          // signature, key id
const uint8_t kTrailer2 = 64 + 4 + 8 + 8;  // and time, nonce

const uint32_t kCodedErrors = 1;
const uint32_t kDeduplicated = 2;
const uint8_t kPublishRetain = 1;  // a flag of PUBLISH_2

struct Header {
  uint64_t sequence;
  uint32_t payload;
  uint16_t topic;
  uint8_t command;
  uint8_t trailer;  // its size: of signed frames only

  uint32_t frame() const { return kHeaderSize + topic + trailer + payload; }
  bool isMessage() const {
    return command == kMessage || command == kSignedMessage || command == kSignedMessage2;
  }
  static uint8_t trailerSize(uint8_t command);
};

const uint32_t kPayloadMax = 0x3fffffff;  // 64 times what a broker sends; sums fit 32 bits

// False if these are not the first bytes of a frame of version 1.
bool readHeader(const uint8_t* from, Header& header);
void writeHeader(uint8_t* to, uint8_t command, uint64_t sequence, size_t topic, size_t payload);

// The options in HELLO, WELCOME and SUBSCRIBE: a type, a length of two bytes, the value.
class OptionReader {
 public:
  explicit OptionReader(Span options) : left_(options) {}
  bool next(uint8_t& type, Span& value);

 private:
  Span left_;
};

// Each returns where it ended. The value may be at most this large; the first, any: its bytes are
// for the caller to put behind the result.
uint8_t* putOption(uint8_t* to, uint8_t type, uint8_t size);
uint8_t* putOption16(uint8_t* to, uint8_t type, uint32_t value);
uint8_t* putOption32(uint8_t* to, uint8_t type, uint32_t value);

}  // namespace penstock_lib
