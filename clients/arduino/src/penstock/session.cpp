// Connecting, time-outs and back-off.
#include <string.h>

#include "core.h"
#include "platform.h"

namespace penstock_lib {

namespace {

const uint32_t kBackOffFirstMs = 100;
const uint32_t kBackOffMaxMs = 30000;
const uint8_t kPassesMax = 32;  // of loop() for one call: a sketch has other things to do

uint32_t since(uint32_t then) { return static_cast<uint32_t>(millis()) - then; }

}  // namespace

Core::Core(Client& client, const Memory& memory, const Backlog& backlog, const JobsDone& jobs)
    : memory_(memory), client_(client), backlog_(backlog), jobsDone_(jobs) {}

void Core::begin(const char* host, uint16_t port) {
  hostCount_ = 0;
  addHost(host, port);
  if (!random_) random_ = trueRandom;
  if (!hasEpoch_ && saving_) saving_->restoreBacklog(*this);
  if (!hasEpoch_) hasEpoch_ = random_(epoch_, sizeof epoch_);
}

bool Core::addHost(const char* host, uint16_t port) {
  if (hostCount_ == sizeof hosts_ / sizeof hosts_[0]) return false;
  hosts_[hostCount_++] = Host{host, port};
  return true;
}

void Core::onMessage(OnMessage callback, void* context) {
  onMessage_ = callback;
  messageContext_ = context;
}

void Core::onPublished(OnPublished callback, void* context) {
  onPublished_ = callback;
  publishedContext_ = context;
}

void Core::onLost(OnLost callback, void* context) {
  onLost_ = callback;
  lostContext_ = context;
}

void Core::onState(OnState callback, void* context) {
  onState_ = callback;
  stateContext_ = context;
}

void Core::start(const char* id) {
  if (id && strlen(id) >= sizeof id_) {
    error_ = PenstockError::BadTopic;
    return;
  }
  if (id && id != id_) strcpy(id_, id);
  if (isWanted_) return;
  isWanted_ = hostCount_ > 0;
  error_ = isWanted_ ? PenstockError::None : PenstockError::NotBegun;
  failures_ = 0;
  dialAt_ = static_cast<uint32_t>(millis());
  if (isWanted_) setState(PenstockState::Connecting);
}

bool Core::connect(const char* id) {
  start(id);
  const uint32_t began = static_cast<uint32_t>(millis());
  while (!connected() && isWanted_ && !isBusy_) {
    loop();
    if (since(began) >= timeoutMs_) {
      if (error_ == PenstockError::None) error_ = PenstockError::NotReached;
      break;
    }
    yield();
  }
  return connected();
}

void Core::disconnect() {
  isWanted_ = false;
  if (phase_ != Phase::Closed) lost(PenstockError::None);
  setState(PenstockState::Disconnected);
}

void Core::loop() {
  if (isBusy_ || !isWanted_) return;
  isBusy_ = true;
  work();
  isBusy_ = false;
}

void Core::work() {
  if (phase_ == Phase::Closed) {
    if (static_cast<int32_t>(since(dialAt_)) < 0) return;
    dial();
  }
  uint8_t passes = 0;
  bool isMore;
  do {
    isMore = receive();
    save();
    pump();
  } while (isMore && ++passes < kPassesMax && phase_ != Phase::Closed);
  if (phase_ != Phase::Closed) checkTimes();
  save();
}

void Core::save() {
  if (isDirty_ && saving_) saving_->saveBacklog(*this);
  isDirty_ = false;
}

void Core::dial() {
  const Host& host = hosts_[host_];
  if (client_.connect(host.name, host.port)) {
    opened();
  } else {
    error_ = PenstockError::NotReached;
    backOff();
  }
}

void Core::opened() {
  heardAt_ = sentAt_ = movedAt_ = static_cast<uint32_t>(millis());
  isWelcome_ = false;
  oldSequences_ = nextSequence_;
  phase_ = user_ || (loginWithKey_ && keyVersion_) ? Phase::Login : Phase::Greeting;
  beginFrame(phase_ == Phase::Login ? kAuth : kHello, 0);
}

// The next host, after a pause that doubles, up to half of it shorter by chance.
void Core::backOff() {
  if (++host_ >= hostCount_) host_ = 0;
  uint32_t pause = kBackOffMaxMs;
  if (failures_ < 9) pause = smaller(kBackOffFirstMs << failures_++, kBackOffMaxMs);
  pause -= ((anyNumber() >> 16) * (pause / 2 + 1)) >> 16;  // many boards cannot divide
  dialAt_ = static_cast<uint32_t>(millis()) + pause;
}

// Where there are no random bytes, the moment and the client id have to do.
uint32_t Core::anyNumber() {
  uint32_t number = static_cast<uint32_t>(micros()) * 2654435761u;
  for (const char* at = id_; *at; ++at) number = (number ^ static_cast<uint8_t>(*at)) * 16777619u;
  uint8_t bytes[4];
  return random_ && random_(bytes, sizeof bytes) ? get32(bytes) : number;
}

// The broker spoke, and let this client in.
void Core::rise() {
  phase_ = Phase::Up;
  failures_ = 0;
  ++stats_.connects;
  error_ = PenstockError::None;
  setState(PenstockState::Connected);
}

void Core::lost(PenstockError error) {
  client_.stop();
  phase_ = Phase::Closed;
  if (error != PenstockError::None) error_ = error;
  outgoing_.command = piece_.command = 0;
  txLength_ = txAt_ = rxLength_ = 0;
  skip_ = 0;
  awaitedCount_ = publishesAwaited_ = 0;
  isPingDue_ = false;
  acksConfirmed_ = acksSent_;  // what is not on the broker's disk, it will repeat
  backlog_.markUnsent();
  if (inbound_) inbound_->lost(*this);
  backOff();
  if (!isWanted_) return;
  if (error == PenstockError::TakenOver) isWanted_ = false;
  setState(error == PenstockError::TakenOver     ? PenstockState::TakenOver
           : error == PenstockError::LoginFailed ? PenstockState::Refused
                                                 : PenstockState::Connecting);
}

void Core::setState(PenstockState state) {
  if (state_ == state) return;
  state_ = state;
  if (onState_) onState_(stateContext_, state);
}

void Core::checkTimes() {
  const uint32_t now = static_cast<uint32_t>(millis()), unheard = now - heardAt_;
  const uint32_t keepAliveMs = keepAliveS_ * 1000u;
  const bool isWaiting = awaitedCount_ > 0;
  const uint32_t limit = phase_ == Phase::Up ? answerMs_ : timeoutMs_;
  const bool isSilent = isWaiting && unheard >= limit && now - askedAt_ >= limit;
  if (isSilent || ((outgoing_.command || txLength_) && now - movedAt_ >= timeoutMs_)) {
    lost(PenstockError::NotReached);
  } else if (!isWaiting && (unheard >= keepAliveMs || now - sentAt_ >= keepAliveMs)) {
    isPingDue_ = true;
    pump();
  }
}

bool Core::flush(uint32_t ms) {
  if (isBusy_) return false;
  const uint32_t began = static_cast<uint32_t>(millis()), acks = acksSent_;
  while (!isSettled(acks)) {
    if (!isWanted_ || since(began) >= ms) return false;
    if (phase_ == Phase::Up && static_cast<int32_t>(acks - acksConfirmed_) > 0 &&
        static_cast<int32_t>(acks - acksBeforePing_) > 0) {
      isPingDue_ = true;
    }
    loop();
    yield();
  }
  return true;
}

bool Core::isSettled(uint32_t acks) const {
  const bool isConfirmed = static_cast<int32_t>(acks - acksConfirmed_) <= 0;
  return backlog_.isEmpty() && isConfirmed && !outgoing_.command && !txLength_ && !awaitedCount_;
}

}  // namespace penstock_lib
