// The driver of the scenario suite (tests/clients): requests on stdin, one JSON object per line;
// answers and events on stdout. The library runs as on a board, one loop() after the other.
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <deque>
#include <string>

#include <Penstock.h>
#ifdef WITH_TLS
#include <WiFiClientSecure.h>
#else
#include <WiFi.h>
#endif

#include "heap.h"
#include "json.h"

namespace {

const size_t kRx = 512;
const size_t kOffline = 1024;

using json::Value;

#ifdef WITH_TLS
const char kTls[] = ", \"tls\"";
WiFiClientSecure network;

bool trust(const Value& authority) {
  char pem[8192];
  FILE* file = fopen(authority.text.c_str(), "rb");
  if (!file) return false;
  pem[fread(pem, 1, sizeof pem - 1, file)] = 0;
  fclose(file);
  return network.setCACert(pem);
}
#else
const char kTls[] = "";
WiFiClient network;

bool trust(const Value&) { return false; }
#endif

PenstockClient<kRx, kOffline> client(network);

std::deque<std::string> texts;         // the library keeps pointers to these
std::map<uint32_t, int64_t> publishes;  // by ticket: the request to answer
uint64_t clockMs = 0;
uint32_t clockSetAt = 0;
bool isAutoAck = true;
bool isClosed = false;

const char* keep(const std::string& text) {
  texts.push_back(text);
  return texts.back().c_str();
}

// Of the test's folder; a restart of the driver is one of the board.
class FileStore : public PenstockStore {
 public:
  std::string folder;

  size_t load(uint8_t slot, uint8_t* to, size_t capacity) override {
    const heap::Counting off(false);
    FILE* file = fopen(name(slot).c_str(), "rb");
    if (!file) return 0;
    const size_t size = fread(to, 1, capacity, file);
    fclose(file);
    return size;
  }
  bool save(uint8_t slot, const uint8_t* data, size_t size) override {
    const heap::Counting off(false);
    const std::string written = name(slot) + ".new";
    FILE* file = fopen(written.c_str(), "wb");
    if (!file) return false;
    const bool isWritten = fwrite(data, 1, size, file) == size;
    return fclose(file) == 0 && isWritten && rename(written.c_str(), name(slot).c_str()) == 0;
  }

 private:
  std::string name(uint8_t slot) const { return folder + "/slot." + std::to_string(slot); }
};

FileStore store;

uint64_t clockOfTest() { return clockMs + (static_cast<uint32_t>(millis()) - clockSetAt); }

void setClock(const Value& ms) {
  clockMs = static_cast<uint64_t>(ms.integer);
  clockSetAt = static_cast<uint32_t>(millis());
  client.setClock(clockOfTest);
}

// ── Out ───────────────────────────────────────────────────────────────────────────────────────

void say(const std::string& line) {
  fputs((line + "\n").c_str(), stdout);
  fflush(stdout);
}

std::string field(const char* name, uint64_t value) {
  return std::string(", \"") + name + "\": " + std::to_string(value);
}

void answer(int64_t id, const std::string& more = "") {
  say("{\"id\": " + std::to_string(id) + ", \"ok\": true" + more + "}");
}

void refuse(int64_t id, const std::string& error, const std::string& kind) {
  say("{\"id\": " + std::to_string(id) + ", \"ok\": false, \"error\": " + json::quoted(error) +
      ", \"kind\": " + json::quoted(kind) + "}");
}

std::string kindOf(PenstockError error) {
  static const char* const kWords[] = {
      "none",       "full",    "too_large",   "bad_topic", "no_key",
      "no_random",  "no_time", "not_begun",   "unsupported", "refused",
      "not_reached", "login_failed", "taken_over", "not_a_broker"};
  return kWords[static_cast<size_t>(error)];
}

bool onMessage(void*, const PenstockMessage& message) {
  const heap::Counting off(false);
  static const char* const kSigners[] = {"none", "verified", "unknown", "bad"};
  say("{\"event\": \"message\", \"topic\": " +
      json::quoted(std::string(message.topic, message.topicLength)) + ", \"payload_b64\": \"" +
      json::base64(message.payload, message.length) + "\"" + field("sequence", message.sequence) +
      ", \"signer\": \"" + kSigners[static_cast<size_t>(message.signer)] + "\"" +
      field("offset", message.offset) + field("total", message.total) + "}");
  return isAutoAck;
}

void onPublished(void*, uint32_t ticket, PenstockResult result) {
  const heap::Counting off(false);
  const auto found = publishes.find(ticket);
  if (found == publishes.end()) return;
  const int64_t id = found->second;
  publishes.erase(found);
  if (result == PenstockResult::Stored) return answer(id, field("ticket", ticket));
  const bool isDropped = result == PenstockResult::Dropped;
  refuse(id, isDropped ? "pushed out of the offline buffer" : client.lastErrorText(),
         isDropped ? "dropped" : "refused");
}

void onLost(void*, const PenstockNews& news) {
  const heap::Counting off(false);
  static const char* const kKinds[] = {"retention", "oversize", "withheld", "subscription",
                                       "notice"};
  say("{\"event\": \"lost\", \"text\": " + json::quoted(news.text) + ", \"kind\": \"" +
      kKinds[static_cast<size_t>(news.kind)] + "\"" + field("count", news.count) +
      field("sequence", news.sequence) + "}");
}

void onState(void*, PenstockState state) {
  const heap::Counting off(false);
  static const char* const kStates[] = {"down", "down", "up", "refused", "taken_over"};
  say("{\"event\": \"state\", \"state\": \"" + std::string(kStates[static_cast<size_t>(state)]) +
      "\"}");
}

// ── Requests ──────────────────────────────────────────────────────────────────────────────────

void configure(const Value& request) {
  if (request["user"].isThere()) {
    client.setUser(keep(request["user"].text), keep(request["password"].text));
  }
  const Value& key = request["key"];
  if (key.isThere()) {
    std::string secret = json::bytes(key["seed_b64"].text);
    secret.resize(64);
    client.setSigningKey(reinterpret_cast<const uint8_t*>(secret.data()),
                         static_cast<uint32_t>(key["id"].integer));
    client.loginWithKey(request["login_with_key"].truth);
  }
  if (request["keep_alive"].isThere()) {
    client.setKeepAlive(static_cast<uint16_t>(request["keep_alive"].number));
  }
  if (request["answer_timeout_ms"].isThere()) {
    client.setAnswerTimeout(static_cast<uint32_t>(request["answer_timeout_ms"].integer));
  }
  if (request["clock_ms"].isThere()) setClock(request["clock_ms"]);
  client.dropOldestWhenFull(request["drop_oldest"].truth);
}

void connect(int64_t id, const Value& request) {
  if (request["ca"].isThere() && !trust(request["ca"])) {
    return refuse(id, "no such authority", "tls");
  }
  configure(request);
  client.onMessage(onMessage);
  client.onPublished(onPublished);
  client.onLost(onLost);
  client.onState(onState);
  client.begin(keep(request["host"].text), static_cast<uint16_t>(request["port"].integer));
  for (const Value& node : request["nodes"].items) {
    if (node.items.size() != 2) continue;
    if (node.items[0].text == request["host"].text &&
        node.items[1].integer == request["port"].integer) {
      continue;
    }
    client.addHost(keep(node.items[0].text), static_cast<uint16_t>(node.items[1].integer));
  }
  const std::string name = request["client_id"].text;
  const bool isWaiting = !request["wait"].isThere() || request["wait"].truth;
  const heap::Counting on(true);
  if (isWaiting) {
    client.connect(name.c_str());
  } else {
    client.start(name.c_str());
  }
  const heap::Counting off(false);
  if (client.connected() || !isWaiting) return answer(id);
  refuse(id, "not connected", kindOf(client.lastError()));
}

void publish(int64_t id, const Value& request) {
  const std::string topic = request["topic"].text;
  const std::string payload = json::bytes(request["payload_b64"].text);
  const int64_t version = request["signed"].integer;
  uint32_t ticket;
  {
    const heap::Counting on(true);
    if (version) {
      client.setSigningVersion(static_cast<uint8_t>(version));
      ticket = client.publishSigned(topic.c_str(), payload.data(), payload.size());
    } else if (request["retain"].truth) {
      ticket = client.publishRetained(topic.c_str(), payload.data(), payload.size());
    } else {
      ticket = client.publish(topic.c_str(), payload.data(), payload.size());
    }
  }
  if (ticket) {
    publishes[ticket] = id;
  } else {
    refuse(id, "not accepted: " + kindOf(client.lastError()), kindOf(client.lastError()));
  }
}

void subscribe(int64_t id, const Value& request) {
  PenstockSubscribe options;
  const Value& start = request["start"];
  if (start.text == "earliest") options.start = PenstockStart::Earliest;
  if (start.text == "latest") options.start = PenstockStart::Latest;
  if (start["last"].isThere()) {
    options.start = PenstockStart::LastMessages;
    options.value = static_cast<uint64_t>(start["last"].integer);
  }
  if (start["since"].isThere()) {
    options.start = PenstockStart::Since;
    options.value = static_cast<uint64_t>(start["since"].integer);
  }
  options.prefetch = static_cast<uint16_t>(request["prefetch"].integer);
  const char* topic = keep(request["topic"].text);
  const heap::Counting on(true);
  const bool isDone = client.subscribe(topic, options);
  const heap::Counting off(false);
  isDone ? answer(id) : refuse(id, "not subscribed", kindOf(client.lastError()));
}

void verify(int64_t id, const Value& request) {
  const std::string key = json::bytes(request["public_b64"].text);
  client.requireSignature(request["require"].truth);
  const bool isDone =
      !request["public_b64"].isThere() ||
      client.addVerificationKey(reinterpret_cast<const uint8_t*>(key.data()),
                                static_cast<uint32_t>(request["key_id"].integer));
  isDone ? answer(id) : refuse(id, "no room for another key", "full");
}

void stats(int64_t id) {
  const PenstockStats stats = client.stats();
  answer(id, field("sent", stats.sent) + field("acked", stats.acked) +
                 field("refused", stats.refused) + field("dropped", stats.dropped) +
                 field("received", stats.received) + field("repeated", stats.repeated) +
                 field("oversize", stats.oversize) + field("withheld", stats.withheld) +
                 field("connects", stats.connects) +
                 field("reconnects", stats.connects ? stats.connects - 1 : 0));
}

void flush(int64_t id, const Value& request) {
  const heap::Counting on(true);
  const bool isDone = client.flush(static_cast<uint32_t>(request["timeout_ms"].integer));
  const heap::Counting off(false);
  isDone ? answer(id) : refuse(id, "not all is answered", "timeout");
}

void handle(const std::string& line) {
  const Value request = json::Reader(line).value();
  const int64_t id = request["id"].integer;
  const std::string& what = request["do"].text;
  if (what == "hello") {
    answer(id, std::string(", \"client\": \"arduino\", \"abilities\": [\"publish\", \"signed\", ") +
               "\"subscribe\", \"worker\", \"offline\", \"verify\", \"retain\", \"hello\", " +
               "\"nodes\", \"users\", \"millis\", \"heap\"" + kTls + "], \"limits\": {\"rx\": " +
               std::to_string(kRx) + ", \"offline\": " + std::to_string(kOffline) + "}");
  } else if (what == "connect") {
    connect(id, request);
  } else if (what == "publish") {
    publish(id, request);
  } else if (what == "subscribe") {
    subscribe(id, request);
  } else if (what == "unsubscribe") {
    client.unsubscribe(request["topic"].text.c_str());
    answer(id);
  } else if (what == "auto_ack") {
    isAutoAck = request["on"].truth;
    answer(id);
  } else if (what == "ack") {
    client.ack(static_cast<uint64_t>(request["sequence"].integer));
    answer(id);
  } else if (what == "verify") {
    verify(id, request);
  } else if (what == "store") {
    store.folder = request["folder"].text;
    client.setStore(&store);
    answer(id);
  } else if (what == "clock") {
    setClock(request["ms"]);
    answer(id);
  } else if (what == "millis") {
    shimAddMillis(static_cast<uint64_t>(request["add"].integer));
    answer(id);
  } else if (what == "flush") {
    flush(id, request);
  } else if (what == "stats") {
    stats(id);
  } else if (what == "heap") {
    answer(id, field("allocations_after_begin", heap::allocations));
  } else if (what == "close") {
    client.disconnect();
    isClosed = true;
    answer(id);
  } else {
    refuse(id, "unknown request " + what, "unknown");
  }
}

// Handles what has arrived on stdin; false at its end.
bool readRequests() {
  static std::string unread;
  char buffer[65536];
  const ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
  if (n <= 0) return false;
  unread.append(buffer, static_cast<size_t>(n));
  size_t end;
  while ((end = unread.find('\n')) != std::string::npos) {
    const std::string line = unread.substr(0, end);
    unread.erase(0, end + 1);
    if (!line.empty()) handle(line);
  }
  return true;
}

}  // namespace

int main() {
  for (;;) {
    struct pollfd ready[2] = {{STDIN_FILENO, POLLIN, 0}, {network.socket(), POLLIN, 0}};
    const nfds_t count = network.socket() < 0 ? 1 : 2;
    poll(ready, count, 5);
    if (ready[0].revents && !readRequests()) return 0;
    if (isClosed) continue;
    const heap::Counting on(true);
    client.loop();
  }
}
