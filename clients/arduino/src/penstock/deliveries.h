// Which messages of a subscription were handled, so that none is handed out twice.
//
// After a reconnect the broker repeats every message whose acknowledgement its disk does not have.
// Sequences ascend within a topic: what is not above the last one handed out is a repetition, and
// was handled, unless it is among those that the sketch has left unacknowledged.
//
// A few of those are remembered, as their lower halves: a subscription does not span four billion
// messages. If there are more, the next connection starts over from the lowest that is not among
// them: what was handled since may be handed out once more, but nothing is lost.
#pragma once

#include "bytes.h"

namespace penstock_lib {

// Of a topic.
class Deliveries {
 public:
  static const uint8_t kOpenMax = 8;
  static const size_t kImage = 8 + 8 + 1 + 4 * kOpenMax;

  bool wasHandled(uint64_t sequence) const;
  void handled(uint64_t sequence);
  void left(uint64_t sequence);  // handed out, and not acknowledged
  bool isOpen(uint64_t sequence) const { return indexOf(sequence) < count_; }
  void connectionLost();

  void save(uint8_t to[kImage]) const;
  void restore(const uint8_t from[kImage]);

 private:
  uint8_t indexOf(uint64_t sequence) const;
  void settle(uint64_t sequence);

  uint64_t untracked() const;

  uint64_t last_ = 0;
  uint32_t open_[kOpenMax] = {};
  uint32_t untracked_ = 0;  // the lowest that was left and is not in open_
  bool hasUntracked_ = false;
  uint8_t count_ = 0;
};

// Of all queues together: jobs come in any order, so the last ones handled are remembered singly.
class JobsDone {
 public:
  JobsDone(uint32_t* memory, uint8_t size) : memory_(memory), size_(size) {}
  bool wasHandled(uint64_t sequence) const;
  void handled(uint64_t sequence);
  uint8_t size() const { return size_; }

 private:
  uint32_t* memory_;
  uint8_t size_, next_ = 0, count_ = 0;
};

}  // namespace penstock_lib
