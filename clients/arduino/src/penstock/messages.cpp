// Messages: handed out once, verified, in pieces if they are large, acknowledged when handled.
#include <string.h>

#include "core.h"

namespace penstock_lib {

// Ends the topic with a zero byte, one place further up: its header was read already.
char* Core::endTopic(uint8_t* frame, size_t size) {
  char* const topic = reinterpret_cast<char*>(frame + kHeaderSize - 1);
  memmove(topic, topic + 1, size);
  topic[size] = 0;
  return topic;
}

void Core::onMessageFrame(const Header& header, uint8_t* frame) {
  const char* topic = endTopic(frame, header.topic);
  if (isRepetition(topic, header.sequence)) return;
  PenstockMessage message = {};
  message.topic = topic;
  message.topicLength = header.topic;
  message.payload = frame + kHeaderSize + header.topic;
  message.length = message.total = header.payload;
  message.sequence = header.sequence;
  if (header.trailer()) {
    message.signer = PenstockSigner::Unknown;
    message.keyId = get32(message.payload + message.length + 64);
    if (verify_) verify_(*this, header, message);
  }
  if (isWithheld(message)) return;
  ++stats_.received;
  const bool isHandled = handOut(message);
  settle(topic, header.sequence, isHandled);
}

bool Core::isRepetition(const char* topic, uint64_t sequence) {
  if (!sequence || !*id_) return false;
  const Subscription* subscription = tracked(topic);
  const bool isKnown = subscription ? subscription->deliveries.wasHandled(sequence)
                                    : jobsDone_.wasHandled(sequence);
  if (isKnown) {
    ++stats_.repeated;
    sendAck(sequence);
  }
  return isKnown;
}

// Those of a filter are not: it has no history, so nothing of it is repeated.
Subscription* Core::tracked(const char* topic) {
  for (uint8_t i = 0; i < memory_.subscriptionCount; ++i) {
    Subscription& subscription = memory_.subscriptions[i];
    if (subscription.isFree() || subscription.isQueue()) continue;
    if (!strcmp(subscription.topic, topic)) return &subscription;
  }
  return nullptr;
}

bool Core::isWithheld(const PenstockMessage& message) {
  if (!requireSignature_ || message.signer == PenstockSigner::Verified) return false;
  ++stats_.withheld;
  if (Subscription* subscription = tracked(message.topic)) {
    if (message.sequence) subscription->deliveries.left(message.sequence);
  }
  tell(PenstockLoss::Withheld, message.topic, message.total, message.sequence);
  return true;
}

bool Core::handOut(PenstockMessage& message) {
  current_ = message.sequence;
  isCurrentAcked_ = false;
  const bool isHandled = onMessage_ && onMessage_(messageContext_, message);
  current_ = 0;
  return isHandled || isCurrentAcked_;
}

// Handled comes before acknowledged, on the sketch's own storage too: a crash between the two makes
// the broker repeat the message, and this client recognise it.
void Core::settle(const char* topic, uint64_t sequence, bool isHandled) {
  if (!sequence || !*id_ || phase_ == Phase::Closed) return;
  Subscription* subscription = tracked(topic);
  if (!isHandled) {
    if (subscription) subscription->deliveries.left(sequence);
    return;
  }
  if (subscription) {
    subscription->deliveries.handled(sequence);
    if (saving_) saving_->saveDeliveries(*this, *subscription);
  } else {
    jobsDone_.handled(sequence);
  }
  sendAck(sequence);
}

bool Core::ack(uint64_t sequence) {
  if (!sequence || !*id_) return false;
  if (sequence == current_) {  // as if the callback returned true
    isCurrentAcked_ = true;
    return true;
  }
  Subscription* found = nullptr;
  for (uint8_t i = 0; i < memory_.subscriptionCount && !found; ++i) {
    Subscription& subscription = memory_.subscriptions[i];
    if (!subscription.isFree() && subscription.deliveries.isOpen(sequence)) found = &subscription;
  }
  if (found) {
    found->deliveries.handled(sequence);
    if (saving_) saving_->saveDeliveries(*this, *found);
  } else {
    jobsDone_.handled(sequence);
  }
  if (phase_ != Phase::Up) return false;  // it will be repeated, recognised and acknowledged
  sendAck(sequence);
  if (!isBusy_) pump();
  return phase_ == Phase::Up;
}

void Core::sendAck(uint64_t sequence) {
  if (!*id_ || phase_ != Phase::Up || !waitForRoom(kHeaderSize)) return;
  if (!txLength_) movedAt_ = static_cast<uint32_t>(millis());
  writeHeader(tx_ + txLength_, kAck, sequence, 0, 0);
  txLength_ += kHeaderSize;
  ++acksSent_;
}

void Core::onWithheld(const Header& header, uint8_t* frame) {
  uint8_t* const payload = frame + kHeaderSize + header.topic;
  const uint32_t size = header.payload >= 4 ? get32(payload) : 0;
  const char* topic = endTopic(frame, header.topic);
  if (isRepetition(topic, header.sequence)) return;
  ++stats_.oversize;
  tell(PenstockLoss::Oversize, topic, size, header.sequence);
  settle(topic, header.sequence, true);
}

// ── In pieces ─────────────────────────────────────────────────────────────────────────────────

// The frame moves to the beginning of the buffer, and its topic stays there.
void Core::beginPieces(const Header& header, size_t& at) {
  uint8_t* const rx = memory_.rx;
  memmove(rx, rx + at, rxLength_ - at);
  rxLength_ -= at;
  at = 0;
  const char* topic = endTopic(rx, header.topic);
  PenstockMessage message = {};
  message.topic = topic;
  message.total = header.payload;
  message.sequence = header.sequence;
  if (isRepetition(topic, header.sequence) || isWithheld(message)) {
    at = kHeaderSize + header.topic;
    skip_ = header.payload + header.trailer();
    return;
  }
  piece_ = header;
  pieceAt_ = 0;
}

// Hands out what the buffer holds of the payload, once that is all of it or the buffer is full.
bool Core::deliverPiece(size_t& at) {
  const size_t base = kHeaderSize + piece_.topic;
  uint8_t* const payload = memory_.rx + base;
  const size_t left = piece_.payload - pieceAt_;
  const size_t n = smaller(rxLength_ - base, left);
  if (n < left && rxLength_ < memory_.rxSize) return false;
  PenstockMessage message = {};
  message.topic = reinterpret_cast<char*>(memory_.rx + kHeaderSize - 1);
  message.topicLength = piece_.topic;
  message.payload = payload;
  message.length = n;
  message.offset = pieceAt_;
  message.total = piece_.payload;
  message.sequence = piece_.sequence;
  message.signer = piece_.trailer() ? PenstockSigner::Unknown : PenstockSigner::None;
  const Header header = piece_;
  const bool isHandled = handOut(message);
  if (phase_ == Phase::Closed) return false;
  pieceAt_ += static_cast<uint32_t>(n);
  memmove(payload, payload + n, rxLength_ - base - n);
  rxLength_ -= n;
  if (n < left) return true;
  piece_ = Header();
  ++stats_.received;
  at = base;
  skip_ = header.trailer();
  settle(message.topic, header.sequence, isHandled);
  return true;
}

}  // namespace penstock_lib
