// What a sketch uses of the library: publishes only, also subscriptions, or signatures as well.
#include <Penstock.h>

extern Client& network;

namespace {

#ifdef SUBSCRIBING
bool received(void*, const PenstockMessage& message) { return message.is("on"); }
#endif
void published(void*, uint32_t, PenstockResult) {}

}  // namespace

// Only for their sizes: the linker's map of symbols says what a client takes.
extern "C" {
extern const char sizeofDefault[], sizeofWithoutQueues[], sizeofPublisher[];
const char sizeofDefault[sizeof(PenstockClient<>)] = {1};
const char sizeofWithoutQueues[sizeof(PenstockClient<512, 1024, 4, 0, 0>)] = {1};
const char sizeofPublisher[sizeof(PenstockClient<320, 512, 0, 0, 0>)] = {1};
}

extern "C" void sketch(void* memory);
extern "C" void sketch(void* memory) {
  auto& client = *static_cast<PenstockClient<>*>(memory);
  client.onPublished(published);
  client.begin("192.168.1.10");
#ifdef SIGNING
  static const uint8_t key[64] = {1};
  client.setSigningKey(key, 7);
#endif
#ifdef VERIFYING
  client.addVerificationKey(key, 8);
#endif
#ifdef SUBSCRIBING
  client.onMessage(received);
  client.setUser("device", "secret");
  client.subscribe("plant/lamp");
  client.ack(1);
#endif
  client.connect("device");
#ifdef SIGNING
  client.publishSigned("secure/a", "21.5");
#endif
  client.publish("plant/pump7", "4.2");
  client.flush(1000);
  client.loop();
}
