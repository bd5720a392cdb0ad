#include "http/gunzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>

namespace kintsugi::http {
namespace {

constexpr int kGzipOnly = 15 + 16;
constexpr std::size_t kMaxInput = 1U << 30;

}  // namespace

struct Gunzip::State {
  z_stream stream{};
  bool begun = false;  // inside a member
  bool broken = false;
};

Gunzip::Gunzip() : state_(std::make_unique<State>()) {
  if (inflateInit2(&state_->stream, kGzipOnly) != Z_OK) {
    std::abort();  // only lack of memory can do this
  }
}

Gunzip::~Gunzip() { inflateEnd(&state_->stream); }

bool Gunzip::at_boundary() const noexcept { return !state_->begun; }

Gunzip::Step Gunzip::next(std::string_view in, std::span<char> out) {
  Step step;
  z_stream& z = state_->stream;
  while (!state_->broken && step.written < out.size()) {
    const std::string_view rest = in.substr(step.read, kMaxInput);
    if (rest.empty() && !state_->begun) {
      break;
    }
    state_->begun = true;
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest.data()));
    z.avail_in = static_cast<uInt>(rest.size());
    z.next_out = reinterpret_cast<Bytef*>(out.data() + step.written);
    const std::size_t room = std::min(out.size() - step.written, kMaxInput);
    z.avail_out = static_cast<uInt>(room);
    const int result = inflate(&z, Z_NO_FLUSH);
    step.read += rest.size() - z.avail_in;
    step.written += room - z.avail_out;
    if (result == Z_STREAM_END) {
      state_->begun = false;
      state_->broken = inflateReset(&z) != Z_OK;
    } else if (result == Z_BUF_ERROR) {
      break;  // it needs more input
    } else {
      state_->broken = result != Z_OK;
    }
  }
  step.good = !state_->broken;
  return step;
}

}  // namespace kintsugi::http
