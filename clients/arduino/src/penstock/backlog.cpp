#include "backlog.h"

#include <string.h>

namespace penstock_lib {

namespace {

void reverse(uint8_t* from, uint8_t* to) {
  while (from < to) {
    const uint8_t byte = *from;
    *from++ = *--to;
    *to = byte;
  }
}

}  // namespace

bool Backlog::fits(size_t topic, size_t payload) const {
  return topic <= 0xffff && payload <= 0xffff && kRecord + kEntry + topic + payload <= size_;
}

bool Backlog::push(const Entry& entry, const char* topic, const uint8_t* payload) {
  const size_t size = kEntry + entry.topic + entry.payload;
  if (tail_ + size > size_) compact();
  if (tail_ + size > size_) return false;
  uint8_t* to = memory_ + tail_;
  to = put32(put32(to, entry.ticket), entry.sequence);
  to = put16(put16(to, entry.topic), entry.payload);
  *to++ = entry.flags;
  memcpy(to, topic, entry.topic);
  if (entry.payload) memcpy(to + entry.topic, payload, entry.payload);
  tail_ += size;
  return true;
}

Entry Backlog::at(size_t at) const {
  const uint8_t* from = memory_ + at;
  return Entry{get32(from), get32(from + 4), get16(from + 8), get16(from + 10), from[12]};
}

size_t Backlog::sizeAt(size_t at) const {
  return kEntry + get16(memory_ + at + 8) + get16(memory_ + at + 10);
}

Span Backlog::topicAt(size_t at) const {
  return Span{memory_ + at + kEntry, get16(memory_ + at + 8)};
}

Span Backlog::payloadAt(size_t at) const {
  return Span{memory_ + at + kEntry + get16(memory_ + at + 8), get16(memory_ + at + 10)};
}

bool Backlog::find(uint32_t sequence, size_t& at) const {
  for (at = head_; at != tail_; at += sizeAt(at)) {
    if (get32(memory_ + at + 4) == sequence) return true;
  }
  return false;
}

void Backlog::markUnsent() {
  for (size_t at = head_; at != tail_; at += sizeAt(at)) {
    memory_[at + 12] = static_cast<uint8_t>(memory_[at + 12] & ~kSent);
  }
}

void Backlog::remove(size_t at) {
  const size_t size = sizeAt(at);
  if (at == head_) {
    head_ += size;
  } else {
    memmove(memory_ + at, memory_ + at + size, tail_ - at - size);
    tail_ -= size;
  }
  if (head_ == tail_) head_ = tail_ = kRecord;
}

// Rotates in place, by three reversals: there is no room for a copy.
void Backlog::moveToEnd(size_t at, uint32_t sequence) {
  const size_t size = sizeAt(at);
  put32(memory_ + at + 4, sequence);
  memory_[at + 12] = static_cast<uint8_t>(memory_[at + 12] & ~kSent);
  uint8_t *entry = memory_ + at, *end = memory_ + tail_;
  reverse(entry, entry + size);
  reverse(entry + size, end);
  reverse(entry, end);
}

void Backlog::compact() {
  memmove(memory_ + kRecord, memory_ + head_, tail_ - head_);
  tail_ -= head_ - kRecord;
  head_ = kRecord;
}

bool Backlog::restore(size_t size) {
  head_ = tail_ = kRecord;
  if (size < kRecord || size > size_) return false;
  size_t at = kRecord;
  while (at + kEntry <= size && at + sizeAt(at) <= size) at += sizeAt(at);
  if (at != size) return false;  // of another version, or damaged
  tail_ = size;
  markUnsent();
  return true;
}

}  // namespace penstock_lib
