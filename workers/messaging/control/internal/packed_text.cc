#include "workers/messaging/control/internal/packed_text.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace kintsugi::workers {

namespace {

// In JSON text there are no control characters, so each of them may stand for something.
constexpr char kRaw = 0x1D;    ///< first: what follows is the text itself
constexpr char kAgain = 0x1E;  ///< the time that was written last
constexpr char kTime = 0x1F;   ///< a time, in full
constexpr std::size_t kTimeBytes = 20;

/// By the code of their place, from 1. Longer ones stand before those that they begin with.
constexpr std::array<std::string_view, 28> kPhrases{{
    R"({"brokerAddress":")",
    R"(","brokers":[{"host":")",
    R"(","state":"Active"}],"conditions":[{"lastTransitionTime":")",
    R"(","state":"Scheduled"}],"conditions":[{"lastTransitionTime":")",
    R"(","message":"","observedGeneration":1,"reason":"Found","status":"True","type":"FoundSpace"},)"
    R"({"lastTransitionTime":")",
    R"(","message":"","observedGeneration":1,"reason":"Found","status":"True","type":"FoundTenant"})"
    R"(,{"lastTransitionTime":")",
    R"(","message":"","observedGeneration":1,"reason":"Validated","status":"True","type":)"
    R"("Validated"},{"lastTransitionTime":")",
    R"(","message":"","observedGeneration":1,"reason":"Scheduled","status":"True","type":)"
    R"("Scheduled"},{"lastTransitionTime":")",
    R"(","message":"","observedGeneration":1,"reason":"NotNeeded","status":"True","type":)"
    R"("Scheduled"},{"lastTransitionTime":")",
    R"(","message":"","observedGeneration":1,"reason":"Created","status":"True","type":"Created"},)"
    R"({"lastTransitionTime":")",
    R"(","message":"","observedGeneration":1,"reason":"Ready","status":"True","type":"Ready"}],)"
    R"("configuration":")",
    R"(","isReady":true,"messages":[],"observedGeneration":1,"phase":"Active","planStatus":{)",
    R"("partitions":1},"spaceId":")",
    R"(","type":"queue"})",
    R"(","type":")",
    R"({"conditions":[{"lastTransitionTime":")",
    R"(","message":")",
    R"(","observedGeneration":)",
    R"(,"reason":")",
    R"(","status":"True","type":")",
    R"(","status":"False","type":")",
    R"("},{"lastTransitionTime":")",
    R"("}],"configuration":")",
    R"(","isReady":)",
    R"(,"messages":[)",
    R"(],"observedGeneration":)",
    R"(,"phase":")",
    R"(","planStatus":{"name":")",
}};
static_assert(kPhrases.size() < static_cast<std::size_t>(kRaw));

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// "2006-01-02T15:04:05Z"
bool is_time(std::string_view text) noexcept {
  constexpr std::string_view kForm = "0000-00-00T00:00:00Z";
  static_assert(kForm.size() == kTimeBytes);
  return text.size() >= kTimeBytes &&
         std::equal(kForm.begin(), kForm.end(), text.begin(),
                    [](char form, char c) { return form == '0' ? is_digit(c) : form == c; });
}

/// Place in kPhrases + 1; 0: none begins here.
char phrase_at(std::string_view text) noexcept {
  // All begin so; most places of a text do not.
  if (text.size() < 4 || (text[0] != '"' && text[0] != ',' && text[0] != '{' && text[0] != ']')) {
    return 0;
  }
  for (std::size_t i = 0; i < kPhrases.size(); ++i) {
    if (text.starts_with(kPhrases[i])) {
      return static_cast<char>(i + 1);
    }
  }
  return 0;
}

}  // namespace

std::string pack_text(std::string_view text) {
  std::string out;
  if (std::any_of(text.begin(), text.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x20; })) {
    out.reserve(text.size() + 1);
    return out.append(1, kRaw).append(text);
  }
  std::string_view last;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (const char code = phrase_at(rest); code != 0) {
      out.push_back(code);
      at += kPhrases[static_cast<std::size_t>(code) - 1].size();
    } else if (is_digit(rest[0]) && is_time(rest)) {
      const std::string_view time = rest.substr(0, kTimeBytes);
      if (time == last) {
        out.push_back(kAgain);
      } else {
        out.append(1, kTime).append(time);
        last = time;
      }
      at += kTimeBytes;
    } else {
      out.push_back(rest[0]);
      ++at;
    }
  }
  out.shrink_to_fit();
  return out;
}

std::string unpack_text(std::string_view packed) {
  if (!packed.empty() && packed[0] == kRaw) {
    return std::string(packed.substr(1));
  }
  std::string out;
  out.reserve(8 * packed.size());
  std::string_view last;
  for (std::size_t at = 0; at < packed.size(); ++at) {
    const char c = packed[at];
    if (static_cast<unsigned char>(c) >= 0x20) {
      out.push_back(c);
    } else if (c == kAgain) {
      out.append(last);
    } else if (c == kTime) {
      last = packed.substr(at + 1, kTimeBytes);
      out.append(last);
      at += last.size();
    } else if (c > 0 && static_cast<std::size_t>(c) <= kPhrases.size()) {
      out.append(kPhrases[static_cast<std::size_t>(c) - 1]);
    }
  }
  return out;
}

}  // namespace kintsugi::workers
