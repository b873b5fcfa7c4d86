// Bytes to answers. A frame is handled where it lies in the buffer; one that is larger goes through
// it in pieces, or is skipped.
#include <string.h>

#include "core.h"
#include "signed.h"

namespace penstock_lib {

namespace {

const size_t kPieceMin = 32;  // room for pieces, behind the longest topic that is read
const uint32_t kHoldFirstMs = 1000;
const uint32_t kHoldMaxMs = 32000;

bool isOfClients(uint8_t command) {
  switch (command) {
    case kSubscribe:
    case kUnsubscribe:
    case kPublish:
    case kPing:
    case kSignedPublish:
    case kSignedPublish2:
    case kAuth:
    case kHello:
    case kPublish2:
      return true;
    default:
      return false;
  }
}

// Ends a text with a zero byte in place: it moves up by one, over what was read already.
char* endText(uint8_t* text, size_t size) {
  memmove(text - 1, text, size);
  text[size - 1] = 0;
  return reinterpret_cast<char*>(text - 1);
}

}  // namespace

bool Core::receive() {
  parse();  // what had to wait for room for its acknowledgement
  if (phase_ == Phase::Closed) return false;
  const int waiting = client_.available();
  const size_t free = memory_.rxSize - rxLength_;
  if (waiting <= 0) {
    if (!client_.connected()) lost(PenstockError::NotReached);
    return false;
  }
  if (!free) return false;
  const size_t size = smaller(static_cast<size_t>(waiting), free);
  const int got = client_.read(memory_.rx + rxLength_, size);
  if (got <= 0) return false;
  rxLength_ += static_cast<size_t>(got);
  heardAt_ = static_cast<uint32_t>(millis());
  parse();
  return true;
}

void Core::parse() {
  size_t at = 0;
  while (phase_ != Phase::Closed && parseFrame(at)) {
  }
  if (phase_ == Phase::Closed || !at) return;  // lost() has emptied the buffer
  memmove(memory_.rx, memory_.rx + at, rxLength_ - at);
  rxLength_ -= at;
}

// Handles what is complete at this position, and moves it on; false when more must arrive.
bool Core::parseFrame(size_t& at) {
  if (skip_) {
    const size_t n = static_cast<size_t>(smaller<uint64_t>(skip_, rxLength_ - at));
    skip_ -= n;
    at += n;
    return n > 0;
  }
  if (room() < kHeaderSize) {  // of an acknowledgement
    pump();
    if (phase_ == Phase::Closed || room() < kHeaderSize) return false;
  }
  if (piece_.command) return deliverPiece(at);
  if (rxLength_ - at < kHeaderSize) return false;
  uint8_t* const frame = memory_.rx + at;
  Header header;
  if (!readHeader(frame, header)) {
    lost(PenstockError::NotABroker);
    return false;
  }
  if (header.frame() > memory_.rxSize) return beginOversize(header, at);
  const size_t size = static_cast<size_t>(header.frame());
  if (rxLength_ - at < size) return false;
  at += size;
  handle(header, frame);
  return true;
}

// Of a message, pieces are handed out from behind its topic, which stays at the beginning of the
// buffer. What is no message, or leaves no room behind its topic, is skipped.
bool Core::beginOversize(const Header& header, size_t& at) {
  const size_t base = kHeaderSize + header.topic;
  if (header.isMessage() && base + kPieceMin <= memory_.rxSize) {
    if (rxLength_ - at < base) return false;
    beginPieces(header, at);
    return true;
  }
  skip_ = header.frame() - kHeaderSize;
  at += kHeaderSize;
  if (header.isMessage()) {
    ++stats_.oversize;
    tell(PenstockLoss::Oversize, "", header.payload, header.sequence);
    if (header.sequence) sendAck(header.sequence);
  }
  return true;
}

void Core::handle(const Header& header, uint8_t* frame) {
  switch (header.command) {
    case kMessage:
    case kSignedMessage:
    case kSignedMessage2:
      return onMessageFrame(header, frame);
    case kWithheld:
      return onWithheld(header, frame);
    case kAck:
      return onAck(header.sequence);
    case kPong:
      return onPong();
    case kChallenge:
      return onChallenge(header, frame);
    case kWelcome:
      return onWelcome(header, frame);
    case kError:
      return onError(header, frame);
    default:  // of a newer broker; but no broker sends what only clients may
      if (isOfClients(header.command)) lost(PenstockError::NotABroker);
  }
}

// ── Answers ───────────────────────────────────────────────────────────────────────────────────

// Takes the oldest request, which this must be the answer of; else the connection is of no use.
bool Core::answered(uint64_t sequence, uint8_t byCommand, Awaited& request) {
  const uint8_t slots = sizeof awaited_ / sizeof awaited_[0];
  bool isExpected = awaitedCount_ > 0;
  if (isExpected) {
    request = awaited_[awaitedFirst_];
    isExpected = sequence == sequenceOf(request.command, request.id);
    if (byCommand == kError && !sequence) isExpected = true;
    if (byCommand == kAck) isExpected = isExpected && request.command != kPing;
    if (byCommand == kPong) isExpected = request.command == kPing;
    if (byCommand == kWelcome) isExpected = isExpected && request.command == kHello;
  }
  if (!isExpected) {
    lost(PenstockError::NotABroker);
    return false;
  }
  awaitedFirst_ = static_cast<uint8_t>((awaitedFirst_ + 1) % slots);
  --awaitedCount_;
  askedAt_ = static_cast<uint32_t>(millis());
  if (request.command == kPublish) --publishesAwaited_;
  return true;
}

void Core::onAck(uint64_t sequence) {
  Awaited request;
  if (!answered(sequence, kAck, request)) return;
  size_t at;
  switch (request.command) {
    case kPublish:
      if (!backlog_.find(request.id, at)) return;
      ++stats_.acked;
      if (backlog_.at(at).isSigned()) holdMs_ = 0;
      return finish(at, PenstockResult::Stored);
    case kSubscribe:
      if (memory_.subscriptions[request.id].state == Subscription::Asked) {
        memory_.subscriptions[request.id].state = Subscription::Granted;
      }
      return;
    case kUnsubscribe:
      if (memory_.subscriptions[request.id].state == Subscription::LeaveAsked) {
        memory_.subscriptions[request.id].state = Subscription::Free;
      }
      return;
    case kAuth:
      phase_ = Phase::Greeting;
      return beginFrame(kHello, 0);
    default:
      return lost(PenstockError::NotABroker);
  }
}

// It says that the acknowledgements sent before the PING are on the broker's disk.
void Core::onPong() {
  Awaited request;
  if (answered(0, kPong, request)) acksConfirmed_ = acksBeforePing_;
}

void Core::onChallenge(const Header& header, const uint8_t* frame) {
  Awaited request;
  if (!answered(header.sequence, kChallenge, request)) return;
  const bool isAsked = request.command == kAuth && header.payload == kNonceSize;
  if (!isAsked || !answerChallenge_ || room() < sizeof tx_) return lost(PenstockError::NotABroker);
  answerChallenge_(*this, frame + kHeaderSize + header.topic);
}

void Core::onWelcome(const Header& header, const uint8_t* frame) {
  Awaited request;
  if (!answered(header.sequence, kWelcome, request)) return;
  OptionReader options(Span{frame + kHeaderSize + header.topic, header.payload});
  uint8_t type;
  Span value;
  while (options.next(type, value)) {
    if (type != 5 || value.size != 8 || !useBrokerClock_) continue;
    brokerTime_ = get64(value.data);
    brokerTimeAt_ = static_cast<uint32_t>(millis());
  }
  isWelcome_ = true;
  rise();
}

// ── Errors ────────────────────────────────────────────────────────────────────────────────────

void Core::onError(const Header& header, uint8_t* frame) {
  uint8_t* const topic = frame + kHeaderSize;
  const Span code{topic, header.topic}, text{topic + header.topic, header.payload};
  const Verdict verdict = code.size ? verdictOfCode(code, header.sequence != 0)
                                    : verdictOfText(text);
  const uint32_t count = leadingNumber(text);
  words_ = endText(topic + header.topic, header.payload);
  Awaited request;
  switch (verdict) {
    case Verdict::TakenOver:
      lost(PenstockError::TakenOver);
      break;
    case Verdict::LoginFailed:
      lost(PenstockError::LoginFailed);
      break;
    case Verdict::Farewell:
      tell(PenstockLoss::Notice, words_, 0, 0);
      if (phase_ != Phase::Closed) lost(PenstockError::Refused);
      break;
    case Verdict::Lost:
      tell(PenstockLoss::Retention, words_, count, 0);
      break;
    case Verdict::Notice:
      tell(PenstockLoss::Notice, words_, 0, 0);
      break;
    default:
      if (!awaitedCount_) {
        tell(PenstockLoss::Notice, words_, 0, 0);
      } else if (answered(header.sequence, kError, request)) {
        refuse(request, verdict == Verdict::SignAgain);
      }
  }
  words_ = "";
}

void Core::refuse(const Awaited& request, bool again) {
  Subscription& subscription = memory_.subscriptions[request.id & 0xff];
  switch (request.command) {
    case kPublish:
      return refusePublish(request.id, again);
    case kHello:  // a broker of version 1
      return rise();
    case kAuth:  // the same, or one that needs no login
      phase_ = Phase::Greeting;
      return beginFrame(kHello, 0);
    case kSubscribe:
      error_ = PenstockError::Refused;
      subscription.state = Subscription::Free;
      return tell(PenstockLoss::Subscription, words_, 0, 0);
    case kUnsubscribe:
      subscription.state = Subscription::Free;
      return;
    default:
      return;
  }
}

// To be signed again, under a new sequence: those behind it may be stored by then.
void Core::refusePublish(uint32_t sequence, bool again) {
  size_t at;
  if (!backlog_.find(sequence, at)) return;
  if (again && keyVersion_) {
    backlog_.moveToEnd(at, nextSequence_++);
    isDirty_ = true;
    holdAt_ = static_cast<uint32_t>(millis());
    holdMs_ = holdMs_ ? static_cast<uint32_t>(smaller(holdMs_ * 2, kHoldMaxMs)) : kHoldFirstMs;
    return tell(PenstockLoss::Notice, words_, 0, 0);
  }
  ++stats_.refused;
  error_ = PenstockError::Refused;
  finish(at, PenstockResult::Refused);
}

// The entry goes first: the callback may publish.
void Core::finish(size_t at, PenstockResult result) {
  const uint32_t ticket = backlog_.at(at).ticket;
  backlog_.remove(at);
  isDirty_ = true;
  if (onPublished_) onPublished_(publishedContext_, ticket, result);
}

void Core::tell(PenstockLoss kind, const char* text, uint32_t count, uint64_t sequence) {
  if (onLost_) onLost_(lostContext_, PenstockNews{kind, text, count, sequence});
}

}  // namespace penstock_lib
