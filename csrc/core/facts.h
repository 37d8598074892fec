// Facts about a plan: names and values, as JSON.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

namespace histo {

struct Fact;
using Facts = std::vector<Fact>;

std::string json(const Facts& facts);

/// A name, and a value as JSON. No name or text has characters that JSON would escape.
struct Fact {
  std::string name;
  std::string value;

  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  Fact(const char* of, T number) : name(of), value(std::to_string(number)) {
  }
  Fact(const char* of, bool flag) : name(of), value(flag ? "true" : "false") {
  }
  Fact(const char* of, const std::string& text) : name(of), value('"' + text + '"') {
  }
  Fact(const char* of, const char* text) : Fact(of, std::string(text)) {
  }
  Fact(const char* of, const std::vector<std::string>& texts) : name(of) {
    for (const std::string& text : texts) {
      value += (value.empty() ? "\"" : ", \"") + text + '"';
    }
    value = '[' + value + ']';
  }
  Fact(const char* of, const Facts& facts) : name(of), value(json(facts)) {
  }
};

inline std::string json(const Facts& facts) {
  std::string text;
  for (const Fact& fact : facts) {
    text += (text.empty() ? "\"" : ", \"") + fact.name + "\": " + fact.value;
  }
  return '{' + text + '}';
}

} // namespace histo
