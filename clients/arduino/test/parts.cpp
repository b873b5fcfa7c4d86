// Parts of the library, one request per line: a word and hexadecimal arguments, "-" for none.
#include <stdio.h>
#include <string.h>

#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <Penstock.h>

#include "fake.h"
#include "heap.h"
#include "penstock/ed25519.h"
#include "penstock/sha512.h"
#include "penstock/signed.h"

using namespace penstock_lib;

namespace {

using Arguments = std::vector<std::string>;  // of bytes

std::string unhex(const std::string& text) {
  std::string result;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    result += static_cast<char>(strtoul(text.substr(i, 2).c_str(), nullptr, 16));
  }
  return result;
}

std::string hex(const uint8_t* data, size_t size) {
  std::string result;
  char digits[3];
  for (size_t i = 0; i < size; ++i) {
    snprintf(digits, sizeof digits, "%02x", data[i]);
    result += digits;
  }
  return result.empty() ? "-" : result;
}

const uint8_t* bytes(const std::string& text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

Span span(const std::string& text) { return Span{bytes(text), text.size()}; }

size_t number(const std::string& argument) {
  size_t result = 0;
  for (const char c : argument) result = (result << 8) | static_cast<uint8_t>(c);
  return result;
}

// ── Cryptography ──────────────────────────────────────────────────────────────────────────────

// The digest of a text in pieces of this size.
std::string sha512(const Arguments& a) {
  uint8_t digest[64];
  Sha512 hash;
  const size_t step = number(a[1]);
  for (size_t at = 0; at < a[0].size(); at += step) {
    hash.add(Span{bytes(a[0]) + at, smaller(step, a[0].size() - at)});
  }
  hash.finish(digest);
  return hex(digest, sizeof digest);
}

std::string sign(const Arguments& a) {  // seed, pieces
  SigningKey key;
  key.set(bytes(a[0]));
  std::vector<Span> pieces;
  for (size_t i = 1; i < a.size(); ++i) pieces.push_back(span(a[i]));
  uint8_t signature[64];
  key.sign(pieces.data(), pieces.size(), signature);
  return hex(key.publicKey(), 32) + " " + hex(signature, 64);
}

std::string check(const Arguments& a) {  // public key, signature, message
  const Span message = span(a[2]);
  return verify(bytes(a[0]), bytes(a[1]), &message, 1) ? "good" : "bad";
}

std::string covered(const Arguments& a) {  // topic, payload, attributes
  SignedText text;
  text.set(span(a[0]), span(a[1]), a[2].empty() ? nullptr : bytes(a[2]));
  std::string all;
  for (size_t i = 0; i < text.count; ++i) all += hex(text.pieces[i].data, text.pieces[i].size);
  return all;
}

std::string login(const Arguments& a) {  // nonce
  SignedText text;
  text.setLogin(bytes(a[0]));
  return hex(text.pieces[0].data, text.pieces[0].size) +
         hex(text.pieces[1].data, text.pieces[1].size);
}

// ── Frames ────────────────────────────────────────────────────────────────────────────────────

std::string header(const Arguments& a) {
  Header header;
  if (!readHeader(bytes(a[0]), header)) return "no frame";
  std::ostringstream out;
  out << int{header.command} << ' ' << header.sequence << ' ' << header.topic << ' '
      << header.payload << ' ' << int{header.trailer};
  return out.str();
}

std::string verdict(Verdict verdict) {
  static const char* const kWords[] = {"answer", "sign again", "lost",      "notice",
                                       "farewell", "login failed", "taken over"};
  return kWords[static_cast<size_t>(verdict)];
}

// ── A client whose network is the test ────────────────────────────────────────────────────────

struct Rig {
  FakeNetwork network;
  PenstockClient<512, 1024> client{network};
  std::string heard;

  Rig() {
    client.onMessage(onMessage, this);
    client.onLost(onLost, this);
    client.begin("broker");
    client.start("device");
    client.loop();
    // WELCOME, without options
    network.toRead = unhex("01210000000000002000000000000000");
    client.subscribe("other");
    client.loop();
    network.toRead = unhex("01050000000000000100000000000000");  // its ACK
    client.loop();
    network.written.clear();
  }

  static bool onMessage(void* rig, const PenstockMessage& message) {
    const heap::Counting off(false);
    std::ostringstream out;
    out << "message " << message.sequence << ' '
        << hex(reinterpret_cast<const uint8_t*>(message.topic), message.topicLength) << ' '
        << message.offset << ' ' << message.total << ' ' << hex(message.payload, message.length)
        << ';';
    static_cast<Rig*>(rig)->heard += out.str();
    return true;
  }

  static void onLost(void* rig, const PenstockNews& news) {
    const heap::Counting off(false);
    std::ostringstream out;
    out << "lost " << int(news.kind) << ' ' << news.sequence << ' ' << news.count << ';';
    static_cast<Rig*>(rig)->heard += out.str();
  }
};

// What a stream is heard as, if it comes in reads of this size.
std::string stream(const Arguments& a) {
  Rig rig;
  const size_t step = number(a[1]);
  for (size_t at = 0; at < a[0].size(); at += step) {
    rig.network.toRead += a[0].substr(at, step);
    for (int i = 0; i < 100 && !rig.network.toRead.empty(); ++i) rig.client.loop();
  }
  rig.heard += rig.client.connected() ? "up" : "down";
  return rig.heard;
}

// The pauses between attempts; the numbers chosen by chance are given.
uint32_t chance;
bool chosen(uint8_t* to, size_t size) {
  for (size_t i = 0; i < size; ++i) to[i] = static_cast<uint8_t>(chance >> (8 * (3 - i % 4)));
  return true;
}

std::string pauses(const Arguments& a) {
  FakeNetwork network;
  network.isReachable = false;
  PenstockClient<512, 1024> client(network);
  client.setRandom(chosen);
  client.begin("broker");
  std::ostringstream out;
  chance = a[0] == "s" ? 0xffffffff : 0;
  for (int i = 0; i < 12; ++i) {
    if (!i) client.start();
    client.loop();
    const unsigned dials = network.dials;
    uint32_t pause = 0;
    for (; network.dials == dials && pause < 40000; ++pause) {
      shimAddMillis(1);
      client.loop();
    }
    out << pause << ' ';
  }
  return out.str();
}

// ── Strangers ─────────────────────────────────────────────────────────────────────────────────

std::string frame(std::mt19937& random) {
  static const uint8_t kCommands[] = {kMessage, kMessage,  kSignedMessage, kSignedMessage2,
                                      kAck,     kPong,     kError,         kWithheld,
                                      kWelcome, kChallenge, 0x42};
  const std::string topic(random() % 7 ? random() % 20 : random() % 600, 'a');
  const std::string payload(random() % 5 ? random() % 40 : random() % 1500, 'p');
  const uint8_t command = kCommands[random() % sizeof kCommands];
  const uint64_t sequence = random() % 3 ? random() % 100 + 1 + (random() & 0xff000000)
                                         : random() & 0x3fff;  // of a request
  uint8_t head[kHeaderSize];
  writeHeader(head, command, sequence, topic.size(), payload.size());
  std::string bytes(reinterpret_cast<char*>(head), sizeof head);
  bytes += topic + payload + std::string(Header::trailerSize(command), 's');
  if (random() % 4 == 0) bytes[random() % bytes.size()] = static_cast<char>(random());
  if (random() % 10 == 0) bytes.resize(random() % bytes.size());
  return bytes;
}

// Random inputs; the client may do what it likes but crash, allocate, or stand still for ever.
std::string strangers(const Arguments& a) {
  std::mt19937 random(static_cast<uint32_t>(number(a[1])));
  FakeNetwork network;
  PenstockClient<320, 512, 2, 1, 8> client(network);
  client.onMessage([](void*, const PenstockMessage& message) { return message.length % 2 == 0; });
  client.begin("broker");
  uint8_t key[64] = {1};
  client.addVerificationKey(key, 0x73737373);
  client.start("device");
  client.subscribe("aaa");
  client.subscribe("a/#");
  unsigned long ups = 0;
  for (size_t i = number(a[0]); i-- > 0;) {
    if (random() % 8 == 0) client.publish("aaaa", "payload");
    network.toRead += frame(random);
    if (random() % 30 == 0) network.stop();  // else it waits for the rest of what is announced
    if (!client.connected()) {
      shimAddMillis(60000);
      client.start("device");
      client.loop();
      if (random() % 8) network.toRead = unhex("01210000000000002000000000000000");
    }
    network.gives = random() % 3 ? SIZE_MAX : 1 + random() % 30;
    network.takes = random() % 3 ? SIZE_MAX : random() % 30;
    const heap::Counting on(true);
    client.loop();
    const heap::Counting off(false);
    network.written.clear();
    ups += client.connected();
  }
  std::ostringstream out;
  out << heap::allocations << ' ' << ups << ' ' << client.stats().received;
  return out.str();
}

std::string handle(const std::string& what, const Arguments& a) {
  if (what == "sha512") return sha512(a);
  if (what == "sign") return sign(a);
  if (what == "check") return check(a);
  if (what == "covered") return covered(a);
  if (what == "login") return login(a);
  if (what == "header") return header(a);
  if (what == "text") return verdict(verdictOfText(span(a[0])));
  if (what == "code") return verdict(verdictOfCode(span(a[0]), number(a[1]) != 0));
  if (what == "stream") return stream(a);
  if (what == "pauses") return pauses(a);
  if (what == "strangers") return strangers(a);
  return "unknown request";
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string what, word;
    Arguments arguments;
    words >> what;
    while (words >> word) arguments.push_back(word == "-" ? "" : unhex(word));
    std::cout << handle(what, arguments) << std::endl;
  }
  return 0;
}
