// What a sketch uses of the library; compiled plain, or with signing and verifying.
#include <Penstock.h>

extern Client& network;

namespace {

bool received(void*, const PenstockMessage& message) { return message.is("on"); }
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
  client.onMessage(received);
  client.onPublished(published);
  client.begin("192.168.1.10");
  client.setUser("device", "secret");
  client.subscribe("plant/lamp");
  client.connect("device");
#ifdef SIGNING
  static const uint8_t key[64] = {1};
  client.setSigningKey(key, 7);
  client.addVerificationKey(key, 8);
  client.publishSigned("secure/a", "21.5");
#endif
  client.publish("plant/pump7", "4.2");
  client.flush(1000);
  client.ack(1);
  client.loop();
}
