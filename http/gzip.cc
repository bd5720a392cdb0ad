#include "http/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>

#include "base/strings.h"

namespace kintsugi::http {
namespace {

constexpr int kFastLevel = 1;  // what Kubernetes uses: CPU matters more than the last percent
constexpr int kWindowBits = 15 + 16;
constexpr int kMemoryLevel = 8;
constexpr std::size_t kMaxInput = 1U << 30;

}  // namespace

struct Gzip::State {
  z_stream stream{};
};

Gzip::Gzip() : state_(std::make_unique<State>()) {
  if (deflateInit2(&state_->stream, kFastLevel, Z_DEFLATED, kWindowBits, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    std::abort();  // only lack of memory can do this
  }
}

Gzip::~Gzip() { deflateEnd(&state_->stream); }

void Gzip::write(std::string_view in, bool last, std::string& out) {
  z_stream& z = state_->stream;
  while (in.size() > kMaxInput) {
    write(in.substr(0, kMaxInput), false, out);
    in.remove_prefix(kMaxInput);
  }
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
  z.avail_in = static_cast<uInt>(in.size());
  int result = Z_OK;
  do {
    char buffer[16'384];
    z.next_out = reinterpret_cast<Bytef*>(buffer);
    z.avail_out = sizeof buffer;
    result = deflate(&z, last ? Z_FINISH : Z_NO_FLUSH);
    out.append(buffer, sizeof buffer - z.avail_out);
  } while (z.avail_out == 0 || (last && result == Z_OK));
}

bool accepts_gzip(std::string_view accept_encoding) {
  for (std::string_view clause : split(accept_encoding, ',')) {
    const std::vector<std::string_view> parts = split(clause, ';');
    if (!equals_ignore_case(trim(parts.front()), "gzip")) {
      continue;
    }
    return std::none_of(parts.begin() + 1, parts.end(), [](std::string_view part) {
      const std::string_view text = trim(part);
      return text == "q=0" || text == "q=0.0";
    });
  }
  return false;
}

}  // namespace kintsugi::http
