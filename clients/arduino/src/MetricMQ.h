// MetricMQ's class and names over Penstock's client: sketches written for it compile, and gain
// confirmed publishes, reconnection and subscriptions that are restored.
//
// Only this adapter uses the heap, for String and std::function. New sketches use Penstock.h.
//
// What differs, because it was broken: publish() returns true when the message is in the offline
// buffer, and it stays there until the broker's disk has it; a message whose local verification
// fails is not handed out; loop() reconnects by itself, and connect() in a loop does no harm.
#pragma once

#include <Penstock.h>
#if defined(ESP8266)
#include <ESP8266WiFi.h>
#else
#include <WiFi.h>
#endif

#include <functional>

enum MetricMQState { MQ_DISCONNECTED, MQ_CONNECTING, MQ_CONNECTED, MQ_ERROR };

class MetricMQClient {
 public:
  using Callback = std::function<void(const String&, const uint8_t*, size_t, uint64_t)>;
  using SignedCallback = std::function<void(const String&, const uint8_t*, size_t, uint64_t, bool,
                                            uint32_t, const uint8_t*)>;

  MetricMQClient() : client_(network_) {
    client_.onMessage(received, this);
    client_.onPublished(published, this);
  }

  void begin(const char* host, uint16_t port = 6379) {
    host_ = host;
    client_.begin(host_.c_str(), port);
  }
  void begin(const String& host, uint16_t port = 6379) { begin(host.c_str(), port); }
  void begin(IPAddress host, uint16_t port = 6379) { begin(host.toString(), port); }

  bool connect() { return client_.connect(id_.c_str()); }
  bool connect(const String& id) {
    id_ = id;
    return connect();
  }
  bool reconnect() { return connect(); }
  void disconnect() { client_.disconnect(); }
  bool isConnected() const { return client_.connected(); }
  bool connected() const { return isConnected(); }
  MetricMQState getState() const {
    switch (client_.getState()) {
      case PenstockState::Connected:
        return MQ_CONNECTED;
      case PenstockState::Connecting:
        return MQ_CONNECTING;
      case PenstockState::Disconnected:
        return MQ_DISCONNECTED;
      default:
        return MQ_ERROR;
    }
  }
  void loop() { client_.loop(); }

  bool publish(const String& topic, const String& payload) {
    return publish(topic, bytes(payload), payload.length());
  }
  bool publish(const String& topic, const uint8_t* payload, size_t size) {
    return client_.publish(topic.c_str(), payload, size) != 0;
  }
  bool publishSigned(const String& topic, const String& payload) {
    return publishSigned(topic, bytes(payload), payload.length());
  }
  bool publishSigned(const String& topic, const uint8_t* payload, size_t size) {
    return client_.publishSigned(topic.c_str(), payload, size) != 0;
  }

  // One callback for all topics; the last one counts, as it always did.
  bool subscribe(const String& topic, Callback callback) {
    callback_ = callback;
    return subscribe(topic);
  }
  bool subscribe(const String& topic) {
    for (String& kept : topics_) {
      if (kept.length() && kept != topic) continue;
      kept = topic;
      return client_.subscribe(kept.c_str());
    }
    return false;
  }
  bool unsubscribe(const String& topic) { return client_.unsubscribe(topic.c_str()); }
  void setCallback(Callback callback) { callback_ = callback; }
  void setSignedCallback(SignedCallback callback) { signedCallback_ = callback; }

  // MetricMQ knows signatures of version 1 only.
  void setSigningKey(const uint8_t secret[64], uint32_t id, uint8_t version = 1) {
    client_.setSigningKey(secret, id, version);
    isSigning_ = true;
  }
  bool isSigningEnabled() const { return isSigning_; }
  bool addVerificationKey(const uint8_t key[32], uint32_t id) {
    return client_.addVerificationKey(key, id);
  }
  bool addVerificationKey(uint32_t id, const uint8_t key[32]) {
    return addVerificationKey(key, id);
  }
  void enableLocalVerification(bool on) { isVerifying_ = on; }

  void setClientId(const String& id) { id_ = id; }
  String getClientId() const { return id_; }
  void setKeepAlive(uint16_t seconds) { client_.setKeepAlive(seconds); }
  void enableExactlyOnce(bool on) { isExactlyOnce_ = on; }
  void setExactlyOnce(bool on) { enableExactlyOnce(on); }
  bool isExactlyOnceEnabled() const { return isExactlyOnce_; }

 private:
  static const uint8_t kTopics = 4;

  static const uint8_t* bytes(const String& text) {
    return reinterpret_cast<const uint8_t*>(text.c_str());
  }

  static bool received(void* self, const PenstockMessage& message) {
    return static_cast<MetricMQClient*>(self)->handOut(message);
  }

  static void published(void*, uint32_t, PenstockResult result) {
    if (result != PenstockResult::Stored) Serial.println("[MetricMQ] a publish was refused");
  }

  bool handOut(const PenstockMessage& message) {
    const bool isBad = message.signer == PenstockSigner::Bad ||
                       (isVerifying_ && message.signer == PenstockSigner::Unknown);
    if (isBad || message.length != message.total) return false;
    const String topic(message.topic);
    const bool isSigned = message.signer != PenstockSigner::None;
    if (callback_) callback_(topic, message.payload, message.length, message.sequence);
    if (signedCallback_) {
      signedCallback_(topic, message.payload, message.length, message.sequence, isSigned,
                      message.keyId, isSigned ? message.payload + message.length : nullptr);
    }
    return isExactlyOnce_;
  }

  WiFiClient network_;
  PenstockClient<2048, 2048, kTopics, 4> client_;
  String host_, id_, topics_[kTopics];
  Callback callback_;
  SignedCallback signedCallback_;
  bool isSigning_ = false, isVerifying_ = false, isExactlyOnce_ = true;
};
