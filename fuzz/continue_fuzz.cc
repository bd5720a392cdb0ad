// A continue token that a client sends: no text opens but one that was made with the key, for that
// question; what was made opens, and not for another question.
#include <cstdint>
#include <string>
#include <string_view>

#include "aggregation/position/continue_token.h"
#include "fuzz/pieces.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kintsugi::aggregation;  // NOLINT
  using kintsugi::fuzz::check;
  static const TokenKeys keys = {
      {1, kintsugi::Secret::copy_of("a secret that no input knows....1")},
      {2, kintsugi::Secret::copy_of("an older one")}};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ListQuestion question;
  question.scope = {"/clusters/*", "", "configmaps"};
  question.version = "v1";
  check(!decode_continue(text, question, keys));
  MergedContinue token;
  token.generation = 1;
  token.slot = static_cast<std::uint16_t>(size % 3);
  token.pins = {size, 7, 0};
  token.member_token = text.substr(0, 512);
  std::string made = encode_continue(token, question, keys.front());
  const auto opened = decode_continue(made, question, keys);
  check(opened && *opened == token);
  ListQuestion other = question;
  other.label_selector = "a=b";
  check(!decode_continue(made, other, keys));
  // One character changed: it opens no more, or says the same (bits that fill the last one up).
  if (size > 1) {
    made[data[0] % made.size()] = static_cast<char>(data[1]);
    const auto changed = decode_continue(made, question, keys);
    check(!changed || *changed == token);
  }
  return 0;
}
