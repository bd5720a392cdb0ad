#pragma once

#include <string>
#include <utility>

#include "krm/json.h"

namespace kintsugi::workers {

/// A JSON value that is kept for long and read seldom: its text, a quarter of what the value takes.
/// Threads: as a std::string.
class KeptJson {
 public:
  KeptJson() = default;
  explicit KeptJson(const krm::Json& value) {
    static thread_local std::string text;
    text.clear();
    value.dump_to(text);
    text_.assign(text.data(), text.size());  // without reserve
  }
  /// null if there was none.
  [[nodiscard]] krm::Json value() const {
    Expected<krm::Json> value = krm::Json::parse(text_);
    return value ? std::move(*value) : krm::Json();
  }

 private:
  std::string text_;
};

}  // namespace kintsugi::workers
