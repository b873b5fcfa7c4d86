// What survives a restart, if the sketch has given a store: publishes that are not acknowledged,
// with the epoch and the sequences by which the broker recognises them, in slot 0; what was handled
// of each subscription, by its place in the table, in the slots behind it.
#include <string.h>

#include "core.h"

namespace penstock_lib {

namespace {

// Of a topic (FNV-1a): a slot of another one must not count.
uint32_t hashOf(const char* text) {
  uint32_t hash = 2166136261u;
  while (*text) hash = (hash ^ static_cast<uint8_t>(*text++)) * 16777619u;
  return hash;
}

}  // namespace

void Core::restoreBacklog() {
  const size_t size = store_->load(0, backlog_.memory(), backlog_.capacity());
  if (!backlog_.restore(size)) return;
  const uint8_t* record = backlog_.record();
  memcpy(epoch_, record, sizeof epoch_);
  nextSequence_ = get32(record + 8);
  nextTicket_ = get32(record + 12);
  hasEpoch_ = true;
}

void Core::saveBacklog() {
  isDirty_ = false;
  if (!store_) return;
  backlog_.compact();
  uint8_t* record = backlog_.record();
  memcpy(record, epoch_, sizeof epoch_);
  put32(put32(record + 8, nextSequence_), nextTicket_);
  const Span image = backlog_.image();
  store_->save(0, image.data, image.size);
}

void Core::restoreDeliveries(Subscription& subscription) {
  uint8_t image[4 + Deliveries::kImage];
  const uint8_t slot = static_cast<uint8_t>(1 + (&subscription - memory_.subscriptions));
  if (!store_ || store_->load(slot, image, sizeof image) != sizeof image) return;
  if (get32(image) == hashOf(subscription.topic)) subscription.deliveries.restore(image + 4);
}

void Core::saveDeliveries(const Subscription& subscription) {
  if (!store_) return;
  uint8_t image[4 + Deliveries::kImage];
  put32(image, hashOf(subscription.topic));
  subscription.deliveries.save(image + 4);
  store_->save(static_cast<uint8_t>(1 + (&subscription - memory_.subscriptions)), image,
               sizeof image);
}

}  // namespace penstock_lib
