// Keys, and all that is done with them. Only a sketch that sets a key links this, and Ed25519: the
// rest of the client calls it by pointers that are set here.
#include <string.h>

#include "core.h"
#include "ed25519.h"
#include "platform.h"
#include "signed.h"

namespace penstock_lib {

namespace {

const uint32_t kHoldFirstMs = 1000;
const uint32_t kHoldMaxMs = 32000;

uint32_t since(uint32_t then) { return static_cast<uint32_t>(millis()) - then; }

}  // namespace

// Not inline: the linker of the ESP8266 keeps all that is.
struct Core::SigningCalls {
  static void sign(Core& core);
  static bool mustWait(Core& core, const Entry& entry);
  static bool isTopicHeld(Core& core, size_t at);
  static uint64_t time(const Core& core);
  static void again(Core& core, size_t at);
  static void describeLogin(const Core& core, Described& frame);
  static void onChallenge(Core& core, const Header& header, uint8_t* frame);
};

void Core::SigningCalls::sign(Core& core) { core.signFrame(); }
bool Core::SigningCalls::mustWait(Core& core, const Entry& entry) { return core.mustWait(entry); }
bool Core::SigningCalls::isTopicHeld(Core& core, size_t at) { return core.isTopicHeld(at); }
uint64_t Core::SigningCalls::time(const Core& core) { return core.time(); }
void Core::SigningCalls::again(Core& core, size_t at) { core.signAgain(at); }
void Core::SigningCalls::describeLogin(const Core& core, Described& frame) {
  core.describeKeyLogin(frame);
}
void Core::SigningCalls::onChallenge(Core& core, const Header& header, uint8_t* frame) {
  core.onChallenge(header, frame);
}

void Core::setSigningKey(const uint8_t secret[64], uint32_t id, uint8_t version) {
  key_.set(secret);
  keyId_ = id;
  setSigningVersion(version);
  using Calls = SigningCalls;
  static const Signing signing = {Calls::sign,  Calls::mustWait, Calls::isTopicHeld, Calls::time,
                                  Calls::again, Calls::describeLogin, Calls::onChallenge};
  signing_ = &signing;
}

void Core::setSigningVersion(uint8_t version) { keyVersion_ = version == 1 ? 1 : 2; }

bool Core::addVerificationKey(const uint8_t publicKey[32], uint32_t id) {
  if (keysUsed_ == memory_.keyCount) return false;
  memcpy(memory_.keys[keysUsed_].publicKey, publicKey, 32);
  memory_.keys[keysUsed_++].id = id;
  verify_ = verifyMessage;
  return true;
}

// The trailer of the publish that is leaving, which tx_ has room for. The signature is made now,
// and not when the publish was called: the broker takes none that is old.
void Core::signFrame() {
  size_t at;
  backlog_.find(outgoing_.id, at);
  uint8_t* const to = tx_ + txLength_;
  const bool isVersion2 = backlog_.at(at).flags & kSigned2;
  put32(to + 64, keyId_);
  if (isVersion2) {
    put64(to + 68, outgoing_.time);
    random_(to + 76, 8);
  }
  SignedText text;
  text.set(backlog_.topicAt(at), backlog_.payloadAt(at), isVersion2 ? to + 64 : nullptr);
  key_.sign(text.pieces, text.count, to);
  txLength_ += isVersion2 ? kTrailer2 : kTrailer1;
}

bool Core::mustWait(const Entry& entry) {
  if (!entry.isSigned()) return false;
  if (holdMs_ && since(holdAt_) < holdMs_) return true;
  if (entry.flags & kSigned2 && !time()) {
    error_ = PenstockError::NoTime;
    return true;
  }
  return false;
}

bool Core::isTopicHeld(size_t at) {
  const Span topic = backlog_.topicAt(at);
  for (size_t held = backlog_.first(); held != at; held = backlog_.next(held)) {
    const Entry entry = backlog_.at(held);
    if (entry.flags & kSent || entry.topic != topic.size || !mustWait(entry)) continue;
    if (!memcmp(backlog_.topicAt(held).data, topic.data, topic.size)) return true;
  }
  return false;
}

uint64_t Core::time() const {
  const uint64_t now = clock_ ? clock_() : wallClock();
  return now || !brokerTime_ ? now : brokerTime_ + since(brokerTimeAt_);
}

// To be signed again, under a new sequence: those behind it may be stored by then.
void Core::signAgain(size_t at) {
  backlog_.moveToEnd(at, nextSequence_++);
  isDirty_ = true;
  holdAt_ = static_cast<uint32_t>(millis());
  holdMs_ = holdMs_ ? smaller(holdMs_ * 2, kHoldMaxMs) : kHoldFirstMs;
  tellWords(PenstockLoss::Notice, 0);
}

void Core::useBrokerClock(bool on) { readTime_ = on ? readTime : nullptr; }

void Core::readTime(Core& core, Span fields) {
  OptionReader options(fields);
  uint8_t type;
  Span value;
  while (options.next(type, value)) {
    if (type != 5 || value.size != 8) continue;
    core.brokerTime_ = get64(value.data);
    core.brokerTimeAt_ = static_cast<uint32_t>(millis());
  }
}

// The first AUTH, which asks for a nonce.
void Core::describeKeyLogin(Described& frame) const {
  char* const name = reinterpret_cast<char*>(frame.head + kHeaderSize);
  const size_t size = writeKeyName(name, keyId_);
  frame.add(name, size);
  frame.finish(kAuth, sequenceOf(kAuth, 0), size, 0);
}

void Core::onChallenge(const Header& header, const uint8_t* frame) {
  const Awaited request = answered(header.sequence, kChallenge);
  if (!request.command) return;
  const bool isAsked = request.command == kAuth && header.payload == kNonceSize;
  if (!isAsked || room() < sizeof tx_) return lost(PenstockError::NotABroker);
  answerChallenge(frame + kHeaderSize + header.topic);
}

// The second: the signature of the broker's nonce.
void Core::answerChallenge(const uint8_t* nonce) {
  char* const name = reinterpret_cast<char*>(tx_ + kHeaderSize);
  const size_t size = writeKeyName(name, keyId_);
  writeHeader(tx_, kAuth, sequenceOf(kAuth, 0), size, 64);
  SignedText text;
  text.setLogin(nonce);
  key_.sign(text.pieces, text.count, tx_ + kHeaderSize + size);
  beginFrame(kAuth, 0);
  outgoing_.command = 0;  // it is in tx_ already
  txLength_ = kHeaderSize + size + 64;
}

void Core::verifyMessage(const Core& core, const Header& header, PenstockMessage& message) {
  const uint8_t* trailer = message.payload + message.length;
  SignedText text;
  text.set(Span{reinterpret_cast<const uint8_t*>(message.topic), message.topicLength},
           Span{message.payload, message.length},
           header.command == kSignedMessage2 ? trailer + 64 : nullptr);
  for (uint8_t i = 0; i < core.keysUsed_; ++i) {
    const VerificationKey& key = core.memory_.keys[i];
    if (key.id != message.keyId) continue;
    const bool isGenuine = verify(key.publicKey, trailer, text.pieces, text.count);
    message.signer = isGenuine ? PenstockSigner::Verified : PenstockSigner::Bad;
    if (isGenuine) return;
  }
}

}  // namespace penstock_lib
