// Arduino's String, as far as the adapter and its sketches use it.
#pragma once

#include <stdio.h>

#include <string>

class String {
 public:
  String() {}
  String(const char* text) : text_(text) {}
  String(const std::string& text) : text_(text) {}
  explicit String(int number) : text_(std::to_string(number)) {}
  explicit String(unsigned long number) : text_(std::to_string(number)) {}
  explicit String(double number, unsigned char digits = 2) {
    char text[40];
    snprintf(text, sizeof text, "%.*f", digits, number);
    text_ = text;
  }

  const char* c_str() const { return text_.c_str(); }
  unsigned length() const { return static_cast<unsigned>(text_.size()); }
  bool operator==(const String& other) const { return text_ == other.text_; }
  bool operator!=(const String& other) const { return text_ != other.text_; }
  String& operator+=(const String& other) {
    text_ += other.text_;
    return *this;
  }
  friend String operator+(const String& a, const String& b) { return String(a.text_ + b.text_); }

 private:
  std::string text_;
};
