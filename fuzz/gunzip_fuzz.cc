// Compressed bodies of shards, in any pieces: pieces never change what comes out, and what was
// compressed comes out as it was.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/pieces.h"
#include "http/gunzip.h"
#include "http/gzip.h"

namespace {

using kintsugi::fuzz::check;
using kintsugi::http::Gunzip;

constexpr std::size_t kEnough = 1U << 20;

struct Result {
  std::string text;
  bool good = true;
  bool complete = false;
  bool operator==(const Result&) const = default;
};

Result unpack(std::string_view in, std::size_t piece) {
  Result result;
  Gunzip gunzip;
  char out[512];
  while (!in.empty() && result.good && result.text.size() < kEnough) {
    std::string_view part = in.substr(0, piece);
    in.remove_prefix(part.size());
    bool full = false;
    while ((!part.empty() || full) && result.good && result.text.size() < kEnough) {
      const Gunzip::Step step = gunzip.next(part, out);
      check(step.read <= part.size() && step.written <= sizeof out);
      part.remove_prefix(step.read);
      result.text.append(out, step.written);
      result.good = step.good;
      full = step.written == sizeof out;
    }
  }
  result.complete = gunzip.at_boundary();
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result whole = unpack(text, size + 1);
  const Result pieces = unpack(text, 1 + size / 7);
  check(whole.text.size() >= kEnough || whole.good == pieces.good);
  check(!whole.good || whole.text.size() >= kEnough || whole == pieces);
  std::string packed;
  kintsugi::http::Gzip().write(text, true, packed);
  if (size < kEnough) {
    check(unpack(packed + packed, 100) ==
          Result{std::string(text) + std::string(text), true, true});
  }
  return 0;
}
