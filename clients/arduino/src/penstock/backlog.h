// Publishes that the broker has not acknowledged, in the memory that the sketch gave: the offline
// buffer and the list of what is under way are one.
//
// Entries lie one behind the other, each in one piece, in the order of their sequences. The broker
// recognises a repeated publish by its sequence, and takes a lower one than the last for a
// repetition. So a publish that must be sent under a new sequence moves to the end.
//
//     | record: 16 bytes | [head: removed] | entry | entry | entry | [free] |
//
// The record holds what must survive a restart together with the entries. Both are saved as one.
#pragma once

#include "bytes.h"

namespace penstock_lib {

enum EntryFlag : uint8_t {
  kSigned1 = 1,
  kSigned2 = 2,
  kRetain = 4,
  kSent = 8,  // on this connection
};

struct Entry {
  uint32_t ticket;
  uint32_t sequence;
  uint16_t topic;
  uint16_t payload;
  uint8_t flags;

  bool isSigned() const { return flags & (kSigned1 | kSigned2); }
};

class Backlog {
 public:
  static const size_t kRecord = 16;
  static const size_t kEntry = 13;

  Backlog(uint8_t* memory, size_t size) : memory_(memory), size_(size) {}
  bool fits(size_t topic, size_t payload) const;  // at all, if nothing else were in it
  bool push(const Entry& entry, const char* topic, const uint8_t* payload);

  // Positions are valid until the next change.
  size_t first() const { return head_; }
  size_t end() const { return tail_; }
  size_t next(size_t at) const { return at + sizeAt(at); }
  Entry at(size_t at) const;
  Span topicAt(size_t at) const;
  Span payloadAt(size_t at) const;
  bool find(uint32_t sequence, size_t& at) const;
  bool isEmpty() const { return head_ == tail_; }

  void markSent(size_t at) { memory_[at + 12] = static_cast<uint8_t>(memory_[at + 12] | kSent); }
  void markUnsent();  // all: the connection is lost
  void remove(size_t at);
  void moveToEnd(size_t at, uint32_t sequence);

  // Saving: compact() makes image() one piece; restore() checks what was read into image().
  uint8_t* record() { return memory_; }
  void compact();
  Span image() const { return Span{memory_, tail_}; }
  uint8_t* memory() { return memory_; }
  size_t capacity() const { return size_; }
  bool restore(size_t size);

 private:
  size_t sizeAt(size_t at) const;

  uint8_t* memory_;
  size_t size_, head_ = kRecord, tail_ = kRecord;
};

}  // namespace penstock_lib
