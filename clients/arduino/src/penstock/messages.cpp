// Messages: handed out once, verified, in pieces if they are large, acknowledged when handled.
#include <string.h>

#include "core.h"

namespace penstock_lib {

namespace {
const size_t kPieceMin = 32;  // room for pieces, behind the longest topic that is read
}  // namespace

// Ends the topic with a zero byte, one place further up: its header was read already.
char* Core::endTopic(uint8_t* frame, size_t size) {
  char* const topic = reinterpret_cast<char*>(frame + kHeaderSize - 1);
  memmove(topic, topic + 1, size);
  topic[size] = 0;
  return topic;
}

// Its payload lies behind the topic, which endTopic() has moved.
PenstockMessage Core::pieceOf(const Header& header, const char* topic, uint32_t at, size_t size) {
  const uint8_t* payload = reinterpret_cast<const uint8_t*>(topic) + header.topic + 1;
  const PenstockSigner signer = header.trailer ? PenstockSigner::Unknown : PenstockSigner::None;
  return PenstockMessage{topic, payload,         header.topic,    size, at,
                         header.payload, header.sequence, 0, signer};
}

void Core::onMessageFrame(const Header& header, uint8_t* frame) {
  if (header.command == kWithheld) return onWithheld(header, frame);
  const char* topic = endTopic(frame, header.topic);
  if (isRepetition(topic, header.sequence)) return;
  PenstockMessage message = pieceOf(header, topic, 0, header.payload);
  if (header.trailer) {
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

bool Core::handOut(const PenstockMessage& message) {
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
  handled(subscription, sequence);
}

void Core::handled(Subscription* subscription, uint64_t sequence) {
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
  handled(found, sequence);
  if (phase_ != Phase::Up) return false;  // it will be repeated, recognised and acknowledged
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

// Pieces are handed out from behind the topic, which stays at the beginning of the buffer. What
// leaves no room there is skipped.
bool Core::beginOversize(const Header& header, size_t& at) {
  const size_t base = kHeaderSize + header.topic;
  if (base + kPieceMin <= memory_.rxSize) {
    if (rxLength_ - at < base) return false;
    beginPieces(header, at);
    return true;
  }
  skip(header, at);
  ++stats_.oversize;
  tell(PenstockLoss::Oversize, "", header.payload, header.sequence);
  if (header.sequence) sendAck(header.sequence);
  return true;
}

// The frame moves to the beginning of the buffer, and its topic stays there.
void Core::beginPieces(const Header& header, size_t& at) {
  uint8_t* const rx = memory_.rx;
  memmove(rx, rx + at, rxLength_ - at);
  rxLength_ -= at;
  at = 0;
  const char* topic = endTopic(rx, header.topic);
  if (isRepetition(topic, header.sequence) || isWithheld(pieceOf(header, topic, 0, 0))) {
    at = kHeaderSize + header.topic;
    skip_ = header.payload + header.trailer;
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
  const char* topic = reinterpret_cast<char*>(memory_.rx + kHeaderSize - 1);
  const bool isHandled = handOut(pieceOf(piece_, topic, pieceAt_, n));
  if (phase_ == Phase::Closed) return false;
  pieceAt_ += static_cast<uint32_t>(n);
  memmove(payload, payload + n, rxLength_ - base - n);
  rxLength_ -= n;
  if (n < left) return true;
  piece_.command = 0;
  ++stats_.received;
  at = base;
  skip_ = piece_.trailer;
  settle(topic, piece_.sequence, isHandled);
  return true;
}

}  // namespace penstock_lib
