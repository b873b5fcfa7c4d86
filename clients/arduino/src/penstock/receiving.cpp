// Bytes to answers. A frame is handled where it lies in the buffer; one that is larger goes through
// it in pieces, or is skipped.
#include <string.h>

#include "core.h"

namespace penstock_lib {

namespace {

// What no broker sends.
const uint8_t kOfClients[] = {kSubscribe,      kUnsubscribe, kPublish, kPing,    kSignedPublish,
                              kSignedPublish2, kAuth,        kHello,   kPublish2};

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
    const uint32_t n = smaller(skip_, static_cast<uint32_t>(rxLength_ - at));
    skip_ -= n;
    at += n;
    return n > 0;
  }
  if (room() < kHeaderSize) {  // of an acknowledgement
    pump();
    if (phase_ == Phase::Closed || room() < kHeaderSize) return false;
  }
  if (piece_.command) return inbound_->onPiece(*this, at);
  if (rxLength_ - at < kHeaderSize) return false;
  uint8_t* const frame = memory_.rx + at;
  Header header;
  if (!readHeader(frame, header)) {
    lost(PenstockError::NotABroker);
    return false;
  }
  const size_t size = header.frame();
  if (size > memory_.rxSize) {
    if (inbound_ && header.isMessage()) return inbound_->onLarge(*this, header, at);
    skip(header, at);
    return true;
  }
  if (rxLength_ - at < size) return false;
  at += size;
  handle(header, frame);
  return true;
}

void Core::skip(const Header& header, size_t& at) {
  skip_ = header.frame() - kHeaderSize;
  at += kHeaderSize;
}

void Core::handle(const Header& header, uint8_t* frame) {
  switch (header.command) {
    case kMessage:
    case kSignedMessage:
    case kSignedMessage2:
    case kWithheld:
      if (inbound_) inbound_->onMessage(*this, header, frame);
      return;
    case kAck:
      return onAck(header.sequence);
    case kPong:
      return onPong();
    case kChallenge:
      return signing_ ? signing_->onChallenge(*this, header, frame)
                      : lost(PenstockError::NotABroker);
    case kWelcome:
      return onWelcome(header, frame);
    case kError:
      return onError(header, frame);
    default:  // of a newer broker; but no broker sends what only clients may
      if (memchr(kOfClients, header.command, sizeof kOfClients)) lost(PenstockError::NotABroker);
  }
}

// ── Answers ───────────────────────────────────────────────────────────────────────────────────

// Takes the oldest request, which this must be the answer of; else the connection is of no use, and
// the result has no command.
Core::Awaited Core::answered(uint64_t sequence, uint8_t by) {
  Awaited request{0, 0};
  if (awaitedCount_) request = awaited_[awaitedFirst_];
  bool isExpected = request.command && sequence == sequenceOf(request.command, request.id);
  if (by == kError && !sequence) isExpected = request.command != 0;
  if (by == kAck || by == kPong) isExpected &= (request.command == kPing) == (by == kPong);
  if (by == kWelcome) isExpected &= request.command == kHello;
  if (!isExpected) {
    lost(PenstockError::NotABroker);
    return Awaited{0, 0};
  }
  if (++awaitedFirst_ == kAwaitedMax) awaitedFirst_ = 0;
  --awaitedCount_;
  askedAt_ = static_cast<uint32_t>(millis());
  if (request.command == kPublish) --publishesAwaited_;
  return request;
}

void Core::onAck(uint64_t sequence) {
  const Awaited request = answered(sequence, kAck);
  size_t at;
  switch (request.command) {
    case 0:
      return;
    case kPublish:
      if (!backlog_.find(request.id, at)) return;
      ++stats_.acked;
      if (backlog_.at(at).isSigned()) holdMs_ = 0;
      return finish(at, PenstockResult::Stored);
    case kSubscribe:
    case kUnsubscribe:
      return inbound_->answered(*this, request, false);
    case kAuth:
      phase_ = Phase::Greeting;
      return beginFrame(kHello, 0);
    default:
      return lost(PenstockError::NotABroker);
  }
}

// It says that the acknowledgements sent before the PING are on the broker's disk.
void Core::onPong() {
  if (answered(0, kPong).command) acksConfirmed_ = acksBeforePing_;
}

void Core::onWelcome(const Header& header, const uint8_t* frame) {
  if (!answered(header.sequence, kWelcome).command) return;
  if (readTime_) readTime_(*this, Span{frame + kHeaderSize + header.topic, header.payload});
  isWelcome_ = true;
  rise();
}

// ── Errors ────────────────────────────────────────────────────────────────────────────────────

void Core::onError(const Header& header, uint8_t* frame) {
  uint8_t* const topic = frame + kHeaderSize;
  const Span code{topic, header.topic}, text{topic + header.topic, header.payload};
  const Verdict verdict = code.size ? verdictOfCode(code, header.sequence != 0)
                                    : verdictOfText(text);
  const uint32_t count = leadingNumber(text);  // before it moves
  words_ = endText(topic + header.topic, header.payload);
  switch (verdict) {
    case Verdict::TakenOver:
      lost(PenstockError::TakenOver);
      break;
    case Verdict::LoginFailed:
      lost(PenstockError::LoginFailed);
      break;
    case Verdict::Farewell:
      tellWords(PenstockLoss::Notice, 0);
      if (phase_ != Phase::Closed) lost(PenstockError::Refused);
      break;
    case Verdict::Lost:
      tellWords(PenstockLoss::Retention, count);
      break;
    case Verdict::Notice:
      tellWords(PenstockLoss::Notice, 0);
      break;
    default:
      if (!awaitedCount_) {
        tellWords(PenstockLoss::Notice, 0);
      } else {
        refuse(answered(header.sequence, kError), verdict == Verdict::SignAgain);
      }
  }
  words_ = "";
}

void Core::refuse(const Awaited& request, bool again) {
  switch (request.command) {
    case kPublish:
      return refusePublish(request.id, again);
    case kHello:  // a broker of version 1
      return rise();
    case kAuth:  // the same, or one that needs no login
      phase_ = Phase::Greeting;
      return beginFrame(kHello, 0);
    case kSubscribe:
    case kUnsubscribe:
      return inbound_->answered(*this, request, true);
    default:
      return;
  }
}

void Core::refusePublish(uint32_t sequence, bool again) {
  size_t at;
  if (!backlog_.find(sequence, at)) return;
  if (again && signing_) return signing_->again(*this, at);
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

void Core::tellWords(PenstockLoss kind, uint32_t count) { tell(kind, words_, count, 0); }

void Core::tell(PenstockLoss kind, const char* text, uint32_t count, uint64_t sequence) {
  if (onLost_) onLost_(lostContext_, PenstockNews{kind, text, count, sequence});
}

}  // namespace penstock_lib
