// A file system in a folder of this machine: $SHIM_FILES, or the current one.
#pragma once

#include <Arduino.h>

class File {
 public:
  explicit File(FILE* file = nullptr) : file_(file) {}
  explicit operator bool() const { return file_ != nullptr; }
  size_t read(uint8_t* to, size_t size) { return fread(to, 1, size, file_); }
  size_t write(const uint8_t* data, size_t size) { return fwrite(data, 1, size, file_); }
  void close() {
    if (file_) fclose(file_);
    file_ = nullptr;
  }

 private:
  FILE* file_;
};

class LittleFSClass {
 public:
  bool begin() { return true; }
  File open(const char* name, const char* mode) { return File(fopen(path(name).c_str(), mode)); }
  bool rename(const char* from, const char* to) {
    return ::rename(path(from).c_str(), path(to).c_str()) == 0;
  }

 private:
  static String path(const char* name) {
    const char* folder = getenv("SHIM_FILES");
    return String(folder ? folder : ".") + name;
  }
};
static LittleFSClass LittleFS;
