// The client, without its buffers: `PenstockClient` in Penstock.h gives it those.
//
// **Replies come in the order of requests.** `awaited_` is a queue of what was asked: each ACK,
// PONG and ERROR answers its first. Between them come messages, at any time.
//
// **A connection goes through phases**: Closed, Login (AUTH), Greeting (HELLO), Up. An old broker
// answers HELLO with an ERROR; then the client id goes with each SUBSCRIBE, as in version 1. On a
// new connection what was not acknowledged is published first: behind a SUBSCRIBE, every reply
// waits until the whole history was sent.
//
// **One frame at a time leaves**, in as many parts as the network takes (`Outgoing`). Nothing here
// waits for the network but connect(), flush() and an acknowledgement for which there is no room.
//
//     session.cpp      connecting, time-outs, back-off
//     sending.cpp      publishes and other requests, to bytes
//     receiving.cpp    bytes to answers
//     subscribing.cpp  subscriptions; not linked unless the sketch has one
//     messages.cpp     messages: once, verified, in pieces, acknowledged; the same
//     signing.cpp      keys; not linked unless the sketch sets one
//     login.cpp        users; not linked unless the sketch sets one
//     saving.cpp       what survives a restart; not linked unless the sketch has a store
//
// **What is not used is not linked.** The rest of the client reaches such parts by tables of
// functions (`Inbound`, `Signing`, `Saving`), which the calls that need them set.
#pragma once

#include <Arduino.h>
#include <Client.h>

#include "backlog.h"
#include "deliveries.h"
#include "ed25519.h"
#include "frame.h"
#include "types.h"
#include "verdict.h"

#ifndef PENSTOCK_WINDOW
#define PENSTOCK_WINDOW 8  // publishes under way
#endif
#ifndef PENSTOCK_TX
#define PENSTOCK_TX 192  // small frames leave together, as far as they fit; at least 128
#endif
#ifndef PENSTOCK_ID
#define PENSTOCK_ID 40  // the longest client id
#endif

namespace penstock_lib {

struct Host {
  const char* name;
  uint16_t port;
};

struct VerificationKey {
  uint8_t publicKey[32];
  uint32_t id;
};

struct Subscription {
  enum State : uint8_t { Free, Wanted, Asked, Granted, Leaving, LeaveAsked };

  const char* topic = nullptr;
  PenstockSubscribe options;
  Deliveries deliveries;
  State state = Free;

  bool isFree() const { return state == Free; }
  bool isQueue() const { return !strncmp(topic, "q:", 2); }
  bool isFilter() const { return strpbrk(topic, "+#") != nullptr; }
};

struct Memory {
  uint8_t* rx;
  size_t rxSize;
  Subscription* subscriptions;
  VerificationKey* keys;
  uint8_t subscriptionCount, keyCount;
};

class Core {
 public:
  using OnMessage = bool (*)(void*, const PenstockMessage&);
  using OnPublished = void (*)(void*, uint32_t, PenstockResult);
  using OnLost = void (*)(void*, const PenstockNews&);
  using OnState = void (*)(void*, PenstockState);
  using Clock = uint64_t (*)();
  using Random = bool (*)(uint8_t*, size_t);

  Core(Client& client, const Memory& memory, const Backlog& backlog, const JobsDone& jobs);

  // Texts given here are not copied: they must stay as long as the client is used.
  void begin(const char* host, uint16_t port = 1883);
  bool addHost(const char* host, uint16_t port = 1883);  // of the same cluster; three at most
  void setUser(const char* user, const char* secret);
  void setStore(PenstockStore* store);  // before begin()

  void setKeepAlive(uint16_t seconds) { keepAliveS_ = seconds; }
  void setTimeout(uint32_t ms) { timeoutMs_ = ms; }  // of connect() and of a write that is stuck
  void setAnswerTimeout(uint32_t ms) { answerMs_ = ms; }
  void setLargestFrame(uint32_t bytes) { largest_ = bytes; }  // 256 or more; beyond it: only told
  void setClock(Clock clock) { clock_ = clock; }
  void setRandom(Random random) { random_ = random; }
  void useBrokerClock(bool on);  // only where the broker is trusted
  void dropOldestWhenFull(bool on) { dropOldest_ = on; }

  void start(const char* id = nullptr);    // returns at once; loop() connects
  bool connect(const char* id = nullptr);  // waits, for the time-out at most
  bool reconnect() { return connect(id_); }
  void disconnect();
  bool connected() const { return phase_ == Phase::Up; }
  PenstockState getState() const { return state_; }
  PenstockError lastError() const { return error_; }
  const char* lastErrorText() const { return words_; }  // in callbacks only
  const char* clientId() const { return id_; }
  void loop();

  // Each returns a ticket, or 0 and sets lastError().
  uint32_t publish(const char* topic, const void* data, size_t size);
  uint32_t publish(const char* topic, const char* text);
  uint32_t publishRetained(const char* topic, const void* data, size_t size);
  uint32_t publishSigned(const char* topic, const void* data, size_t size);
  uint32_t publishSigned(const char* topic, const char* text);
  bool flush(uint32_t ms);  // true: all is answered, and acknowledgements are on the broker's disk

  bool subscribe(const char* topic, const PenstockSubscribe& options = PenstockSubscribe());
  bool unsubscribe(const char* topic);
  bool ack(uint64_t sequence);

  void onMessage(OnMessage callback, void* context = nullptr);  // false: not acknowledged
  void onPublished(OnPublished callback, void* context = nullptr);
  void onLost(OnLost callback, void* context = nullptr);
  void onState(OnState callback, void* context = nullptr);

  // Of the 64 bytes the first half is used, the seed. Version 1 is for brokers that require it.
  void setSigningKey(const uint8_t secret[64], uint32_t id, uint8_t version = 2);
  void setSigningVersion(uint8_t version);
  void loginWithKey(bool on) { loginWithKey_ = on; }
  bool addVerificationKey(const uint8_t publicKey[32], uint32_t id);
  void requireSignature(bool on) { requireSignature_ = on; }

  PenstockStats stats() const { return stats_; }

 private:
  enum class Phase : uint8_t { Closed, Login, Greeting, Up };
  static const uint8_t kAwaitedMax = PENSTOCK_WINDOW + 4;

  struct Awaited {
    uint32_t id;  // of a publish: its sequence; else which subscription
    uint8_t command;
  };

  struct Outgoing {
    size_t at = 0;  // bytes of it that were written
    uint32_t id = 0;
    uint64_t time = 0;
    uint8_t command = 0;  // 0: no frame is on its way
  };

  struct Described {
    uint8_t head[kHeaderSize + 40];  // the header, and what is short
    Span pieces[4];
    size_t count;
    uint8_t trailer;  // the size of what follows the pieces

    void add(const void* data, size_t size) {
      pieces[count++] = Span{static_cast<const uint8_t*>(data), size};
    }
    void finish(uint8_t command, uint64_t sequence, size_t topic, size_t payload);
  };

  // session.cpp
  void work();
  void save();
  void dial();
  void opened();
  void lost(PenstockError error);
  void backOff();
  void rise();
  void checkTimes();
  void setState(PenstockState state);
  bool isSettled(uint32_t acks) const;
  uint32_t anyNumber();

  // sending.cpp
  uint32_t enqueue(const char* topic, const void* data, size_t size, uint8_t flags);
  PenstockError faultOf(const char* topic, size_t size, uint8_t flags) const;
  bool makeRoom(const Entry& entry, const char* topic, const uint8_t* data);
  void pump();
  bool beginNext();
  bool beginPublish(size_t at);
  void beginFrame(uint8_t command, uint32_t id);
  bool nextPublish(size_t& found, bool onlyOld);
  bool fill();
  bool fillPieces(const Described& frame);
  bool fillPiece(Span piece, size_t begin);
  void describe(Described& frame) const;
  void describePublish(Described& frame) const;
  void describeHello(Described& frame) const;
  static uint32_t sequenceOf(uint8_t command, uint32_t id);
  bool flushTx();
  size_t room() const { return outgoing_.command ? 0 : sizeof tx_ - txLength_; }
  bool waitForRoom(size_t size);

  // receiving.cpp
  bool receive();
  void parse();
  bool parseFrame(size_t& at);
  void skip(const Header& header, size_t& at);
  void handle(const Header& header, uint8_t* frame);
  Awaited answered(uint64_t sequence, uint8_t by);
  void onAck(uint64_t sequence);
  void onPong();
  void onWelcome(const Header& header, const uint8_t* frame);
  void onError(const Header& header, uint8_t* frame);
  void refuse(const Awaited& request, bool again);
  void refusePublish(uint32_t sequence, bool again);
  void finish(size_t at, PenstockResult result);
  void tellWords(PenstockLoss kind, uint32_t count);
  void tell(PenstockLoss kind, const char* text, uint32_t count, uint64_t sequence);

  // subscribing.cpp
  struct Inbound {
    bool (*begin)(Core&);  // a request that is due
    void (*describe)(const Core&, Described&);
    void (*answered)(Core&, const Awaited&, bool isRefused);
    void (*lost)(Core&);
    void (*onMessage)(Core&, const Header&, uint8_t* frame);
    bool (*onLarge)(Core&, const Header&, size_t& at);
    bool (*onPiece)(Core&, size_t& at);
  };
  struct InboundCalls;
  bool beginSubscription();
  void describeSubscribe(Described& frame) const;
  uint8_t* putWishes(const Subscription& subscription, uint8_t* to) const;
  void onSubscriptionAnswer(const Awaited& request, bool isRefused);
  void subscriptionsLost();

  // messages.cpp
  bool beginOversize(const Header& header, size_t& at);
  void onMessageFrame(const Header& header, uint8_t* frame);
  void onWithheld(const Header& header, uint8_t* frame);
  bool deliverPiece(size_t& at);
  bool handOut(const PenstockMessage& message);
  static PenstockMessage pieceOf(const Header& header, const char* topic, uint32_t at, size_t size);
  bool isWithheld(const PenstockMessage& message);
  void beginPieces(const Header& header, size_t& at);
  static char* endTopic(uint8_t* frame, size_t size);
  bool isRepetition(const char* topic, uint64_t sequence);
  void settle(const char* topic, uint64_t sequence, bool isHandled);
  void handled(Subscription* subscription, uint64_t sequence);
  Subscription* tracked(const char* topic);
  void sendAck(uint64_t sequence);

  // signing.cpp
  struct Signing {
    void (*sign)(Core&);
    bool (*mustWait)(Core&, const Entry&);
    bool (*isTopicHeld)(Core&, size_t at);
    uint64_t (*time)(const Core&);
    void (*again)(Core&, size_t at);
    void (*describeLogin)(const Core&, Described&);
    void (*onChallenge)(Core&, const Header&, uint8_t* frame);
  };
  struct SigningCalls;
  void signFrame();
  bool mustWait(const Entry& entry);
  bool isTopicHeld(size_t at);
  uint64_t time() const;
  void signAgain(size_t at);
  void describeKeyLogin(Described& frame) const;
  void onChallenge(const Header& header, const uint8_t* frame);
  void answerChallenge(const uint8_t* nonce);
  static void readTime(Core& core, Span options);
  static void verifyMessage(const Core& core, const Header& header, PenstockMessage& message);

  // login.cpp
  static void describeLogin(const Core& core, Described& frame);

  // saving.cpp
  struct Saving {
    void (*restoreBacklog)(Core&);
    void (*saveBacklog)(Core&);
    void (*restoreDeliveries)(Core&, Subscription&);
    void (*saveDeliveries)(Core&, const Subscription&);
  };
  static void restoreBacklog(Core& core);
  static void saveBacklog(Core& core);
  static void restoreDeliveries(Core& core, Subscription& subscription);
  static void saveDeliveries(Core& core, const Subscription& subscription);

  // First what is used everywhere: boards reach the first 128 bytes by short instructions.
  Memory memory_;
  size_t rxLength_ = 0, txLength_ = 0, txAt_ = 0;
  Client& client_;
  Backlog backlog_;
  Outgoing outgoing_;
  Phase phase_ = Phase::Closed;
  PenstockState state_ = PenstockState::Disconnected;
  PenstockError error_ = PenstockError::None;
  bool isWanted_ = false, isBusy_ = false, isDirty_ = false, hasEpoch_ = false;
  bool isWelcome_ = false, dropOldest_ = false, requireSignature_ = false;
  bool loginWithKey_ = false, isPingDue_ = false, isCurrentAcked_ = false;
  uint8_t awaitedFirst_ = 0, awaitedCount_ = 0, publishesAwaited_ = 0;
  uint8_t keyVersion_ = 0;  // 0: no key
  uint8_t keysUsed_ = 0, hostCount_ = 0, host_ = 0, failures_ = 0;
  const Inbound* inbound_ = nullptr;
  const Signing* signing_ = nullptr;
  const Saving* saving_ = nullptr;
  uint32_t heardAt_ = 0, sentAt_ = 0, askedAt_ = 0, movedAt_ = 0;
  uint32_t nextSequence_ = 1, nextTicket_ = 1, oldSequences_ = 0;
  uint32_t acksSent_ = 0, acksBeforePing_ = 0, acksConfirmed_ = 0;
  uint32_t skip_ = 0;
  const char* words_ = "";

  PenstockStats stats_ = {};
  uint16_t keepAliveS_ = 60;
  uint32_t timeoutMs_ = 10000, answerMs_ = 30000, largest_ = 0;
  uint32_t dialAt_ = 0;
  uint32_t holdAt_ = 0, holdMs_ = 0;  // signed publishes wait, after the broker wanted others
  OnMessage onMessage_ = nullptr;
  OnPublished onPublished_ = nullptr;
  OnLost onLost_ = nullptr;
  OnState onState_ = nullptr;
  void *messageContext_ = nullptr, *publishedContext_ = nullptr;
  void *lostContext_ = nullptr, *stateContext_ = nullptr;
  Clock clock_ = nullptr;
  Random random_ = nullptr;
  void (*describeLogin_)(const Core&, Described&) = nullptr;
  void (*readTime_)(Core&, Span) = nullptr;
  void (*verify_)(const Core&, const Header&, PenstockMessage&) = nullptr;
  PenstockStore* store_ = nullptr;
  const char *user_ = nullptr, *secret_ = nullptr;

  Header piece_ = {};  // of a payload that comes in pieces; command 0: none does
  uint64_t current_ = 0;  // the message that the sketch is being handed
  uint64_t brokerTime_ = 0;
  uint32_t brokerTimeAt_ = 0;
  uint32_t pieceAt_ = 0;
  uint32_t keyId_ = 0;
  JobsDone jobsDone_;
  Host hosts_[3] = {};
  Awaited awaited_[kAwaitedMax];
  SigningKey key_;
  uint8_t epoch_[8] = {};
  char id_[PENSTOCK_ID + 1] = "";
  uint8_t tx_[PENSTOCK_TX];
};

}  // namespace penstock_lib
