#include "deliveries.h"

namespace penstock_lib {

namespace {
uint32_t lower(uint64_t sequence) { return static_cast<uint32_t>(sequence); }
}  // namespace

uint8_t Deliveries::indexOf(uint64_t sequence) const {
  uint8_t i = 0;
  while (i < count_ && open_[i] != lower(sequence)) ++i;
  return i;
}

bool Deliveries::wasHandled(uint64_t sequence) const {
  return sequence <= last_ && !untracked_ && !isOpen(sequence);
}

void Deliveries::settle(uint64_t sequence) {
  const uint8_t at = indexOf(sequence);
  if (at < count_) open_[at] = open_[--count_];
}

void Deliveries::handled(uint64_t sequence) {
  settle(sequence);
  if (sequence > last_) last_ = sequence;
}

void Deliveries::left(uint64_t sequence) {
  if (sequence > last_) last_ = sequence;
  if (isOpen(sequence)) return;
  if (count_ < kOpenMax) {
    open_[count_++] = lower(sequence);
  } else if (!untracked_ || sequence < untracked_) {
    untracked_ = sequence;
  }
}

void Deliveries::connectionLost() {
  if (!untracked_) return;
  last_ = untracked_ - 1;
  untracked_ = 0;
  for (uint8_t i = count_; i-- > 0;) {
    if (open_[i] > lower(last_)) open_[i] = open_[--count_];
  }
}

void Deliveries::save(uint8_t to[kImage]) const {
  to = put64(put64(to, last_), untracked_);
  *to++ = count_;
  for (uint8_t i = 0; i < kOpenMax; ++i) to = put32(to, open_[i]);
}

void Deliveries::restore(const uint8_t from[kImage]) {
  last_ = get64(from);
  untracked_ = get64(from + 8);
  count_ = from[16] < kOpenMax ? from[16] : kOpenMax;
  for (uint8_t i = 0; i < kOpenMax; ++i) open_[i] = get32(from + 17 + 4 * i);
  connectionLost();
}

void JobsDone::begin(uint32_t* memory, uint8_t size) {
  memory_ = memory;
  size_ = size;
}

bool JobsDone::wasHandled(uint64_t sequence) const {
  for (uint8_t i = 0; i < count_; ++i) {
    if (memory_[i] == lower(sequence)) return true;
  }
  return false;
}

void JobsDone::handled(uint64_t sequence) {
  if (!size_) return;
  memory_[next_] = lower(sequence);
  next_ = static_cast<uint8_t>((next_ + 1) % size_);
  if (count_ < size_) ++count_;
}

}  // namespace penstock_lib
