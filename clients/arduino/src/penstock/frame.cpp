#include "frame.h"

namespace penstock_lib {

uint8_t Header::trailerSize(uint8_t command) {
  switch (command) {
    case kSignedPublish:
    case kSignedMessage:
      return kTrailer1;
    case kSignedPublish2:
    case kSignedMessage2:
      return kTrailer2;
    default:
      return 0;
  }
}

bool readHeader(const uint8_t* from, Header& header) {
  header.command = from[1];
  header.trailer = Header::trailerSize(from[1]);
  header.sequence = get64(from + 2);
  header.topic = get16(from + 10);
  header.payload = get32(from + 12);
  return from[0] == 1 && header.payload <= kPayloadMax;
}

void writeHeader(uint8_t* to, uint8_t command, uint64_t sequence, size_t topic, size_t payload) {
  to[0] = 1;
  to[1] = command;
  put64(to + 2, sequence);
  put16(to + 10, static_cast<uint16_t>(topic));
  put32(to + 12, static_cast<uint32_t>(payload));
}

bool OptionReader::next(uint8_t& type, Span& value) {
  if (left_.size < 3) return false;
  type = left_.data[0];
  value.data = left_.data + 3;
  value.size = get16(left_.data + 1);
  if (value.size > left_.size - 3) return false;
  left_.data += 3 + value.size;
  left_.size -= 3 + value.size;
  return true;
}

uint8_t* putOption(uint8_t* to, uint8_t type, uint8_t size) {
  to[0] = type;
  return put16(to + 1, size);
}

uint8_t* putOption16(uint8_t* to, uint8_t type, uint32_t value) {
  return put16(putOption(to, type, 2), static_cast<uint16_t>(value));
}

uint8_t* putOption32(uint8_t* to, uint8_t type, uint32_t value) {
  return put32(putOption(to, type, 4), value);
}

}  // namespace penstock_lib
