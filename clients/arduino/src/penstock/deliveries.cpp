#include "deliveries.h"

namespace penstock_lib {

namespace {
uint32_t lower(uint64_t sequence) { return static_cast<uint32_t>(sequence); }
bool isBelow(uint32_t one, uint32_t other) { return static_cast<int32_t>(one - other) < 0; }
}  // namespace

uint8_t Deliveries::indexOf(uint64_t sequence) const {
  uint8_t i = 0;
  while (i < count_ && open_[i] != lower(sequence)) ++i;
  return i;
}

bool Deliveries::wasHandled(uint64_t sequence) const {
  return sequence <= last_ && !hasUntracked_ && !isOpen(sequence);
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
  } else if (!hasUntracked_ || isBelow(lower(sequence), untracked_)) {
    untracked_ = lower(sequence);
    hasUntracked_ = true;
  }
}

uint64_t Deliveries::untracked() const { return last_ - (lower(last_) - untracked_); }

void Deliveries::connectionLost() {
  if (!hasUntracked_) return;
  last_ = untracked() - 1;
  hasUntracked_ = false;
  for (uint8_t i = count_; i-- > 0;) {
    if (isBelow(lower(last_), open_[i])) open_[i] = open_[--count_];
  }
}

void Deliveries::save(uint8_t to[kImage]) const {
  to = put64(put64(to, last_), hasUntracked_ ? untracked() : 0);
  *to++ = count_;
  for (uint8_t i = 0; i < kOpenMax; ++i) to = put32(to, open_[i]);
}

void Deliveries::restore(const uint8_t from[kImage]) {
  last_ = get64(from);
  const uint64_t untracked = get64(from + 8);
  untracked_ = lower(untracked);
  hasUntracked_ = untracked != 0;
  count_ = from[16] < kOpenMax ? from[16] : kOpenMax;
  for (uint8_t i = 0; i < kOpenMax; ++i) open_[i] = get32(from + 17 + 4 * i);
  connectionLost();
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
  if (++next_ == size_) next_ = 0;
  if (count_ < size_) ++count_;
}

}  // namespace penstock_lib
