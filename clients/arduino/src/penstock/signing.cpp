// Keys, and all that is done with them. Only a sketch that sets a key links this, and Ed25519: the
// rest of the client calls it by pointers that are set here.
#include <string.h>

#include "core.h"
#include "ed25519.h"
#include "signed.h"

namespace penstock_lib {

void Core::setSigningKey(const uint8_t secret[64], uint32_t id, uint8_t version) {
  key_.set(secret);
  keyId_ = id;
  setSigningVersion(version);
  signFrame_ = signFrame;
  answerChallenge_ = answerChallenge;
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
void Core::signFrame(Core& core) {
  const Backlog& backlog = core.backlog_;
  size_t at;
  backlog.find(core.outgoing_.id, at);
  uint8_t* const to = core.tx_ + core.txLength_;
  const bool isVersion2 = backlog.at(at).flags & kSigned2;
  put32(to + 64, core.keyId_);
  if (isVersion2) {
    put64(to + 68, core.outgoing_.time);
    core.random_(to + 76, 8);
  }
  SignedText text;
  text.set(backlog.topicAt(at), backlog.payloadAt(at), isVersion2 ? to + 64 : nullptr);
  core.key_.sign(text.pieces, text.count, to);
  core.txLength_ += isVersion2 ? kTrailer2 : kTrailer1;
}

// The second AUTH of a login with a key: the signature of the broker's nonce.
void Core::answerChallenge(Core& core, const uint8_t* nonce) {
  uint8_t* const tx = core.tx_;
  char* const name = reinterpret_cast<char*>(tx + kHeaderSize);
  const size_t size = writeKeyName(name, core.keyId_);
  writeHeader(tx, kAuth, sequenceOf(kAuth, 0), size, 64);
  SignedText text;
  text.setLogin(nonce);
  core.key_.sign(text.pieces, text.count, tx + kHeaderSize + size);
  core.beginFrame(kAuth, 0);
  core.outgoing_.command = 0;  // it is in tx_ already
  core.txLength_ = kHeaderSize + size + 64;
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
