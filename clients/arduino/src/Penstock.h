// A client of Penstock, the message broker, for microcontrollers.
//
//     WiFiClient network;
//     PenstockClient<> penstock(network);
//
//     void setup() {
//       ... connect to the WiFi ...
//       penstock.begin("192.168.1.10");
//       penstock.connect("pump-7");
//     }
//
//     void loop() {
//       penstock.loop();  // reads, answers, reconnects; never blocks but to connect
//       penstock.publish("plant/pump7", "4.2");
//     }
//
// No heap after begin(), no exceptions, no RTTI, no String. docs/clients/arduino.md of Penstock
// says what is guaranteed, how large it is and what to watch out for.
#pragma once

#include "penstock/core.h"

// RX: a message with its topic that fits is handed out in one piece, a larger one in several.
// OFFLINE: publishes that are not acknowledged; each takes 13 bytes, its topic and its payload.
// SUBS: subscriptions. KEYS: public keys for verifying messages. JOBS: jobs of queues that are
// remembered as done, and that a broker sends ahead; 0 where there are no queues.
template <size_t RX = 512, size_t OFFLINE = 1024, uint8_t SUBS = 4, uint8_t KEYS = 4,
          uint8_t JOBS = 16>
class PenstockClient : public penstock_lib::Core {
  static_assert(RX >= 320, "an error of the broker must fit, with its header");
  static_assert(RX <= 0xffff, "16 bits must do for positions in the buffer");
  static_assert(OFFLINE >= 64, "one publish must fit");

 public:
  explicit PenstockClient(Client& client)
      : Core(client, penstock_lib::Memory{rx_, RX, subscriptions_, keys_, SUBS, KEYS},
             penstock_lib::Backlog(offline_, OFFLINE), penstock_lib::JobsDone(jobs_, JOBS)) {}

 private:
  penstock_lib::Subscription subscriptions_[SUBS ? SUBS : 1];
  penstock_lib::VerificationKey keys_[KEYS ? KEYS : 1];
  uint32_t jobs_[JOBS ? JOBS : 1];
  uint8_t rx_[RX];
  uint8_t offline_[OFFLINE];
};
