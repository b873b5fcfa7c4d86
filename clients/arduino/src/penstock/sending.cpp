// Publishes and other requests, to bytes.
//
// A frame is described anew each time that a part of it leaves: as pieces that lie in the backlog,
// in the sketch or in a small head. Nothing is copied but into `tx_`, and the trailer of a signed
// publish is made when all before it has left.
#include <string.h>

#include "core.h"

namespace penstock_lib {

namespace {

const size_t kTopicMax = 1024;

uint32_t since(uint32_t then) { return static_cast<uint32_t>(millis()) - then; }

}  // namespace

// ── Publishing ────────────────────────────────────────────────────────────────────────────────

uint32_t Core::publish(const char* topic, const void* data, size_t size) {
  return enqueue(topic, data, size, 0);
}

uint32_t Core::publish(const char* topic, const char* text) {
  return enqueue(topic, text, strlen(text), 0);
}

uint32_t Core::publishRetained(const char* topic, const void* data, size_t size) {
  return enqueue(topic, data, size, kRetain);
}

uint32_t Core::publishSigned(const char* topic, const void* data, size_t size) {
  return enqueue(topic, data, size, keyVersion_ == 1 ? kSigned1 : kSigned2);
}

uint32_t Core::publishSigned(const char* topic, const char* text) {
  return publishSigned(topic, text, strlen(text));
}

uint32_t Core::enqueue(const char* topic, const void* data, size_t size, uint8_t flags) {
  error_ = faultOf(topic, size, flags);
  if (error_ == PenstockError::None) {
    const Entry entry{nextTicket_, nextSequence_, static_cast<uint16_t>(strlen(topic)),
                      static_cast<uint16_t>(size), flags};
    if (makeRoom(entry, topic, static_cast<const uint8_t*>(data))) {
      ++nextSequence_;
      if (!++nextTicket_) nextTicket_ = 1;
      isDirty_ = true;
      save();
      if (phase_ == Phase::Up && !isBusy_) pump();
      return entry.ticket;
    }
    error_ = PenstockError::Full;
  }
  ++stats_.refused;
  return 0;
}

PenstockError Core::faultOf(const char* topic, size_t size, uint8_t flags) const {
  const size_t length = strlen(topic);
  if (!hostCount_) return PenstockError::NotBegun;
  if (state_ == PenstockState::TakenOver) return PenstockError::TakenOver;
  if (!length || length > kTopicMax || strpbrk(topic, "+#")) return PenstockError::BadTopic;
  if (!backlog_.fits(length, size)) return PenstockError::TooLarge;
  if (flags & (kSigned1 | kSigned2) && !keyVersion_) return PenstockError::NoKey;
  if (flags & kSigned2 && !hasEpoch_) return PenstockError::NoRandom;
  return PenstockError::None;
}

// Where the oldest may go: it goes unless it is under way, for then it may be stored already.
bool Core::makeRoom(const Entry& entry, const char* topic, const uint8_t* data) {
  while (!backlog_.push(entry, topic, data)) {
    size_t at = backlog_.first();
    while (at != backlog_.end() && backlog_.at(at).flags & kSent) at = backlog_.next(at);
    if (!dropOldest_ || at == backlog_.end()) return false;
    ++stats_.dropped;
    finish(at, PenstockResult::Dropped);
  }
  return true;
}

// ── Which frame is next ───────────────────────────────────────────────────────────────────────

void Core::pump() {
  while (phase_ != Phase::Closed && (outgoing_.command || beginNext())) {
    if (!fill() && (!txLength_ || !flushTx())) return;  // the network takes no more
  }
  if (phase_ != Phase::Closed) flushTx();
}

bool Core::beginNext() {
  if (phase_ != Phase::Up || awaitedCount_ == kAwaitedMax) return false;
  size_t at;
  if (nextPublish(at, true)) return beginPublish(at);  // no history may delay their answers
  if (inbound_ && inbound_->begin(*this)) return true;
  if (isPingDue_) {
    isPingDue_ = false;
    acksBeforePing_ = acksSent_;
    beginFrame(kPing, 0);
    return true;
  }
  return nextPublish(at, false) && beginPublish(at);
}

void Core::beginFrame(uint8_t command, uint32_t id) {
  outgoing_.at = 0;
  outgoing_.command = command;
  outgoing_.id = id;
  const uint32_t now = static_cast<uint32_t>(millis());
  if (!awaitedCount_) askedAt_ = now;
  if (!txLength_) movedAt_ = now;
  size_t last = awaitedFirst_ + awaitedCount_++;
  if (last >= kAwaitedMax) last -= kAwaitedMax;
  awaited_[last] = Awaited{id, command};
  if (command == kPublish) ++publishesAwaited_;
}

bool Core::beginPublish(size_t at) {
  if (publishesAwaited_ >= PENSTOCK_WINDOW) return false;
  const Entry entry = backlog_.at(at);
  if (entry.flags & kRetain && !isWelcome_) {
    error_ = PenstockError::Unsupported;
    ++stats_.refused;
    words_ = "this broker is too old for retained publishes";
    finish(at, PenstockResult::Refused);
    words_ = "";
    return false;
  }
  backlog_.markSent(at);
  ++stats_.sent;
  beginFrame(kPublish, entry.sequence);
  if (entry.flags & kSigned2) outgoing_.time = signing_->time(*this);
  return true;
}

// A signed publish that waits is overtaken only by other topics: in a topic, order is kept.
bool Core::nextPublish(size_t& found, bool onlyOld) {
  bool isAnyHeld = false;
  for (size_t at = backlog_.first(); at != backlog_.end(); at = backlog_.next(at)) {
    const Entry entry = backlog_.at(at);
    if (entry.flags & kSent) continue;
    if (onlyOld && static_cast<int32_t>(entry.sequence - oldSequences_) >= 0) return false;
    if (entry.isSigned() && (!signing_ || signing_->mustWait(*this, entry))) {
      isAnyHeld = true;
    } else if (!isAnyHeld || !signing_ || !signing_->isTopicHeld(*this, at)) {
      found = at;
      return true;
    }
  }
  return false;
}

// ── Frames ────────────────────────────────────────────────────────────────────────────────────

// Only those of publishes must differ from each other: answers come in the order of requests.
uint32_t Core::sequenceOf(uint8_t command, uint32_t id) {
  if (command == kPublish) return id;
  return command == kPing ? 0 : static_cast<uint32_t>(command << 8) | id;
}

void Core::Described::finish(uint8_t command, uint64_t sequence, size_t topic, size_t payload) {
  writeHeader(head, command, sequence, topic, payload);
  trailer = static_cast<uint8_t>(Header::trailerSize(command));
}

void Core::describe(Described& frame) const {
  frame.count = 0;
  frame.add(frame.head, kHeaderSize);
  switch (outgoing_.command) {
    case kPublish:
      return describePublish(frame);
    case kSubscribe:
    case kUnsubscribe:
      return inbound_->describe(*this, frame);
    case kHello:
      return describeHello(frame);
    case kAuth:
      return (user_ ? describeLogin_ : signing_->describeLogin)(*this, frame);
    default:
      frame.finish(outgoing_.command, 0, 0, 0);
  }
}

void Core::describePublish(Described& frame) const {
  size_t at;
  backlog_.find(outgoing_.id, at);
  const Entry entry = backlog_.at(at);
  const Span topic = backlog_.topicAt(at), payload = backlog_.payloadAt(at);
  const bool isRetained = entry.flags & kRetain;
  frame.add(topic.data, topic.size);
  if (isRetained) {
    frame.head[kHeaderSize] = kPublishRetain;
    frame.add(frame.head + kHeaderSize, 1);
  }
  frame.add(payload.data, payload.size);
  const uint8_t command = isRetained               ? kPublish2
                          : entry.flags & kSigned1 ? kSignedPublish
                          : entry.flags & kSigned2 ? kSignedPublish2
                                                   : kPublish;
  frame.finish(command, entry.sequence, topic.size, payload.size + isRetained);
}

void Core::describeHello(Described& frame) const {
  uint8_t* const options = frame.head + kHeaderSize;
  const bool canRepeat = *id_ && hasEpoch_;
  const uint32_t features = kCodedErrors | (canRepeat ? kDeduplicated : 0);
  uint8_t* end = putOption32(options, 1, features);
  if (largest_) end = putOption32(end, 2, largest_);
  end = putOption16(end, 3, keepAliveS_);
  if (canRepeat) {
    memcpy(putOption(end, 4, 8), epoch_, 8);
    end += 11;
  }
  const size_t id = strlen(id_), size = static_cast<size_t>(end - options);
  frame.add(id_, id);
  frame.add(options, size);
  frame.finish(kHello, sequenceOf(kHello, 0), id, size);
}

// ── To bytes ──────────────────────────────────────────────────────────────────────────────────

// True when the whole frame is in tx_, or has left.
bool Core::fill() {
  Described frame;
  describe(frame);
  if (!fillPieces(frame)) return false;
  if (frame.trailer) {
    if (sizeof tx_ - txLength_ < frame.trailer) return false;
    signing_->sign(*this);
  }
  outgoing_.command = 0;
  return true;
}

bool Core::fillPieces(const Described& frame) {
  size_t begin = 0;
  for (size_t i = 0; i < frame.count; ++i) {
    if (!fillPiece(frame.pieces[i], begin)) return false;
    begin += frame.pieces[i].size;
  }
  return true;
}

// A piece that begins at this position of the frame. What would fill tx_ leaves without a copy.
bool Core::fillPiece(Span piece, size_t begin) {
  while (outgoing_.at < begin + piece.size) {
    const uint8_t* from = piece.data + (outgoing_.at - begin);
    const size_t left = begin + piece.size - outgoing_.at;
    size_t n = smaller(left, sizeof tx_ - txLength_);
    if (!txLength_ && left >= sizeof tx_) {
      n = client_.write(from, left);
      if (!n) return false;
      movedAt_ = sentAt_ = static_cast<uint32_t>(millis());
    } else {
      if (!n) return false;
      memcpy(tx_ + txLength_, from, n);
      txLength_ += n;
    }
    outgoing_.at += n;
  }
  return true;
}

bool Core::flushTx() {
  while (txAt_ < txLength_) {
    const size_t n = client_.write(tx_ + txAt_, txLength_ - txAt_);
    if (!n) return false;
    txAt_ += n;
    movedAt_ = sentAt_ = static_cast<uint32_t>(millis());
  }
  txLength_ = txAt_ = 0;
  return true;
}

// For an acknowledgement outside loop(), which has nowhere else to wait.
bool Core::waitForRoom(size_t size) {
  const uint32_t began = static_cast<uint32_t>(millis());
  while (room() < size) {
    pump();
    if (phase_ == Phase::Closed) return false;
    if (room() >= size) return true;
    if (since(began) >= timeoutMs_) {
      lost(PenstockError::NotReached);
      return false;
    }
    yield();
  }
  return true;
}

}  // namespace penstock_lib
