// As much JSON as the driver's requests need, and base64.
#pragma once

#include <stdint.h>
#include <stdlib.h>

#include <map>
#include <string>
#include <vector>

namespace json {

struct Value {
  enum Kind { Null, Bool, Number, Text, List, Object } kind = Null;
  bool truth = false;
  double number = 0;
  int64_t integer = 0;
  std::string text;
  std::vector<Value> items;
  std::map<std::string, Value> members;

  const Value& operator[](const char* name) const {
    static const Value nothing;
    const auto found = members.find(name);
    return found == members.end() ? nothing : found->second;
  }
  bool isThere() const { return kind != Null; }
};

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  Value value() {
    Value value;
    switch (peek()) {
      case '{':
        value.kind = Value::Object;
        while (more('{', '}')) {
          const std::string name = string();
          peek(), ++at_;  // the colon
          value.members[name] = this->value();
        }
        break;
      case '[':
        value.kind = Value::List;
        while (more('[', ']')) value.items.push_back(this->value());
        break;
      case '"':
        value.kind = Value::Text;
        value.text = string();
        break;
      default:
        word(value);
    }
    return value;
  }

 private:
  char peek() {
    while (at_ < text_.size() && strchr(" \t\r\n", text_[at_])) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  // Steps over what opens or separates; false at what closes.
  bool more(char open, char close) {
    if (peek() == open || peek() == ',') ++at_;
    if (peek() != close && peek()) return true;
    ++at_;
    return false;
  }

  std::string string() {
    std::string result;
    peek();
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] != '\\') {
        result += text_[at_];
      } else if (text_[++at_] == 'u') {
        put(result, static_cast<unsigned>(strtoul(text_.substr(at_ + 1, 4).c_str(), nullptr, 16)));
        at_ += 4;
      } else {
        const char* known = strchr("n\nt\tr\rb\bf\f", text_[at_]);
        result += known ? known[1] : text_[at_];
      }
    }
    ++at_;
    return result;
  }

  static void put(std::string& to, unsigned code) {  // UTF-8, without surrogates
    if (code < 0x80) {
      to += static_cast<char>(code);
    } else if (code < 0x800) {
      to += static_cast<char>(0xc0 | (code >> 6));
      to += static_cast<char>(0x80 | (code & 0x3f));
    } else {
      to += static_cast<char>(0xe0 | (code >> 12));
      to += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
      to += static_cast<char>(0x80 | (code & 0x3f));
    }
  }

  void word(Value& value) {
    const size_t begin = at_;
    while (at_ < text_.size() && !strchr(",]} \t\r\n", text_[at_])) ++at_;
    const std::string word = text_.substr(begin, at_ - begin);
    if (word == "null") return;
    value.kind = word == "true" || word == "false" ? Value::Bool : Value::Number;
    value.truth = word == "true";
    value.number = strtod(word.c_str(), nullptr);
    value.integer = strtoll(word.c_str(), nullptr, 10);
  }

  const std::string& text_;
  size_t at_ = 0;
};

inline std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    char escaped[8];
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) {
      snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      result += escaped;
    } else {
      result += c;
    }
  }
  return result + '"';
}

const char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

inline std::string base64(const uint8_t* data, size_t size) {
  std::string result;
  for (size_t i = 0; i < size; i += 3) {
    uint32_t bits = static_cast<uint32_t>(data[i]) << 16;
    if (i + 1 < size) bits |= static_cast<uint32_t>(data[i + 1]) << 8;
    if (i + 2 < size) bits |= data[i + 2];
    result += kDigits[bits >> 18];
    result += kDigits[(bits >> 12) & 63];
    result += i + 1 < size ? kDigits[(bits >> 6) & 63] : '=';
    result += i + 2 < size ? kDigits[bits & 63] : '=';
  }
  return result;
}

inline std::string bytes(const std::string& text) {
  std::string result;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const char* digit = strchr(kDigits, c);
    if (!digit || !c) continue;
    bits = (bits << 6) | static_cast<uint32_t>(digit - kDigits);
    count += 6;
    if (count >= 8) {
      count -= 8;
      result += static_cast<char>((bits >> count) & 0xff);
    }
  }
  return result;
}

}  // namespace json
