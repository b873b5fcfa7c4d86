// Subscriptions: asked for on each connection, until they are ended.
#include <string.h>

#include "core.h"

namespace penstock_lib {

namespace {

const size_t kTopicMax = 1024;
const uint8_t kKnowsVersion2 = 0x02;  // payload of SUBSCRIBE: signed messages may come as 0x13

}  // namespace

// Not inline: the linker of the ESP8266 keeps all that is.
struct Core::InboundCalls {
  static bool begin(Core& core);
  static void describe(const Core& core, Described& frame);
  static void answered(Core& core, const Awaited& request, bool isRefused);
  static void lost(Core& core);
  static void onMessage(Core& core, const Header& header, uint8_t* frame);
  static bool onLarge(Core& core, const Header& header, size_t& at);
  static bool onPiece(Core& core, size_t& at);
};

bool Core::InboundCalls::begin(Core& core) { return core.beginSubscription(); }
void Core::InboundCalls::describe(const Core& core, Described& frame) {
  core.describeSubscribe(frame);
}
void Core::InboundCalls::answered(Core& core, const Awaited& request, bool isRefused) {
  core.onSubscriptionAnswer(request, isRefused);
}
void Core::InboundCalls::lost(Core& core) { core.subscriptionsLost(); }
void Core::InboundCalls::onMessage(Core& core, const Header& header, uint8_t* frame) {
  core.onMessageFrame(header, frame);
}
bool Core::InboundCalls::onLarge(Core& core, const Header& header, size_t& at) {
  return core.beginOversize(header, at);
}
bool Core::InboundCalls::onPiece(Core& core, size_t& at) { return core.deliverPiece(at); }

bool Core::subscribe(const char* topic, const PenstockSubscribe& options) {
  error_ = PenstockError::BadTopic;
  if (!*topic || strlen(topic) > kTopicMax) return false;
  Subscription* free = nullptr;
  for (uint8_t i = 0; i < memory_.subscriptionCount; ++i) {
    Subscription& subscription = memory_.subscriptions[i];
    if (subscription.isFree()) {
      if (!free) free = &subscription;
    } else if (!strcmp(subscription.topic, topic) && subscription.state < Subscription::Leaving) {
      error_ = PenstockError::None;
      return true;
    }
  }
  error_ = free ? PenstockError::None : PenstockError::Full;
  if (!free) return false;
  *free = Subscription();
  free->topic = topic;
  free->options = options;
  free->state = Subscription::Wanted;
  using Calls = InboundCalls;
  static const Inbound inbound = {Calls::begin, Calls::describe,  Calls::answered, Calls::lost,
                                  Calls::onMessage, Calls::onLarge, Calls::onPiece};
  inbound_ = &inbound;
  if (saving_) saving_->restoreDeliveries(*this, *free);
  if (phase_ == Phase::Up && !isBusy_) pump();
  return true;
}

bool Core::unsubscribe(const char* topic) {
  for (uint8_t i = 0; i < memory_.subscriptionCount; ++i) {
    Subscription& subscription = memory_.subscriptions[i];
    if (subscription.isFree() || subscription.state >= Subscription::Leaving) continue;
    if (strcmp(subscription.topic, topic) != 0) continue;
    const bool isKnown = phase_ == Phase::Up && subscription.state != Subscription::Wanted;
    subscription.state = isKnown ? Subscription::Leaving : Subscription::Free;
    if (isKnown && !isBusy_) pump();
    return true;
  }
  return false;
}

bool Core::beginSubscription() {
  for (uint8_t i = 0; i < memory_.subscriptionCount; ++i) {
    Subscription& subscription = memory_.subscriptions[i];
    if (subscription.state == Subscription::Wanted) {
      subscription.state = Subscription::Asked;
      beginFrame(kSubscribe, i);
      return true;
    }
    if (subscription.state == Subscription::Leaving) {
      subscription.state = Subscription::LeaveAsked;
      beginFrame(kUnsubscribe, i);
      return true;
    }
  }
  return false;
}

// A broker that was greeted knows the client id; an older one is told it with each topic.
void Core::describeSubscribe(Described& frame) const {
  const Subscription& subscription = memory_.subscriptions[outgoing_.id];
  const size_t id = isWelcome_ || !*id_ ? 0 : strlen(id_) + 1;
  const size_t topic = strlen(subscription.topic);
  frame.add(id_, id);
  frame.add(subscription.topic, topic);
  uint8_t* const options = frame.head + kHeaderSize;
  uint8_t* const end =
      outgoing_.command == kSubscribe ? putWishes(subscription, options) : options;
  const size_t size = static_cast<size_t>(end - options);
  frame.add(options, size);
  const uint64_t sequence = sequenceOf(outgoing_.command, outgoing_.id);
  frame.finish(outgoing_.command, sequence, id + topic, size);
}

// An unset prefetch of a queue is as many jobs as are remembered: more could come twice.
uint8_t* Core::putWishes(const Subscription& subscription, uint8_t* to) const {
  *to++ = kKnowsVersion2;
  if (!isWelcome_) return to;
  const PenstockSubscribe& wish = subscription.options;
  if (wish.start != PenstockStart::Default) {
    const uint8_t size = wish.start == PenstockStart::Since          ? 9
                         : wish.start == PenstockStart::LastMessages ? 5
                                                                     : 1;
    to = putOption(to, 1, size);
    *to = static_cast<uint8_t>(wish.start);
    if (size == 5) put32(to + 1, static_cast<uint32_t>(wish.value));
    if (size == 9) put64(to + 1, wish.value);
    to += size;
  }
  uint16_t prefetch = wish.prefetch;
  if (!prefetch && subscription.isQueue()) prefetch = jobsDone_.size();
  return prefetch ? putOption16(to, 2, prefetch) : to;
}

void Core::onSubscriptionAnswer(const Awaited& request, bool isRefused) {
  Subscription& subscription = memory_.subscriptions[request.id];
  if (request.command == kUnsubscribe) {
    if (isRefused || subscription.state == Subscription::LeaveAsked) {
      subscription.state = Subscription::Free;
    }
  } else if (isRefused) {
    error_ = PenstockError::Refused;
    subscription.state = Subscription::Free;
    tellWords(PenstockLoss::Subscription, 0);
  } else if (subscription.state == Subscription::Asked) {
    subscription.state = Subscription::Granted;
  }
}

void Core::subscriptionsLost() {
  for (uint8_t i = 0; i < memory_.subscriptionCount; ++i) {
    Subscription& subscription = memory_.subscriptions[i];
    if (subscription.isFree()) continue;
    const bool isLeaving = subscription.state >= Subscription::Leaving;
    subscription.state = isLeaving ? Subscription::Free : Subscription::Wanted;
    subscription.deliveries.connectionLost();
  }
}

}  // namespace penstock_lib
