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

void Core::setStore(PenstockStore* store) {
  static const Saving saving = {restoreBacklog, saveBacklog, restoreDeliveries, saveDeliveries};
  store_ = store;
  saving_ = &saving;
}

void Core::restoreBacklog(Core& core) {
  Backlog& backlog = core.backlog_;
  const size_t size = core.store_->load(0, backlog.memory(), backlog.capacity());
  if (!backlog.restore(size)) return;
  const uint8_t* record = backlog.record();
  memcpy(core.epoch_, record, sizeof core.epoch_);
  core.nextSequence_ = get32(record + 8);
  core.nextTicket_ = get32(record + 12);
  core.hasEpoch_ = true;
}

void Core::saveBacklog(Core& core) {
  Backlog& backlog = core.backlog_;
  backlog.compact();
  uint8_t* record = backlog.record();
  memcpy(record, core.epoch_, sizeof core.epoch_);
  put32(put32(record + 8, core.nextSequence_), core.nextTicket_);
  const Span image = backlog.image();
  core.store_->save(0, image.data, image.size);
}

void Core::restoreDeliveries(Core& core, Subscription& subscription) {
  uint8_t image[4 + Deliveries::kImage];
  const uint8_t slot = static_cast<uint8_t>(1 + (&subscription - core.memory_.subscriptions));
  if (core.store_->load(slot, image, sizeof image) != sizeof image) return;
  if (get32(image) == hashOf(subscription.topic)) subscription.deliveries.restore(image + 4);
}

void Core::saveDeliveries(Core& core, const Subscription& subscription) {
  uint8_t image[4 + Deliveries::kImage];
  const uint8_t slot = static_cast<uint8_t>(1 + (&subscription - core.memory_.subscriptions));
  put32(image, hashOf(subscription.topic));
  subscription.deliveries.save(image + 4);
  core.store_->save(slot, image, sizeof image);
}

}  // namespace penstock_lib
