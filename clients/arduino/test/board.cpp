// What a board does with a sketch.
void setup();
void loop();

int main() {
  setup();
  for (;;) loop();
}
