// "<URL>\n<addresses that the name resolves to, 17 bytes each: length, bytes>": whatever a tenant
// writes and a resolver says, nothing that is denied may be dialled.
#include <netinet/in.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "net/internal/outgoing_target.h"

namespace {

using kintsugi::net::OutgoingJudge;
using kintsugi::net::SocketAddress;

std::vector<SocketAddress> read_answers(std::string_view bytes) {
  std::vector<SocketAddress> out;
  while (bytes.size() > 4) {
    SocketAddress address;
    const bool v4 = (bytes.front() & 1) == 0;
    const std::size_t size = v4 ? 4 : 16;
    if (bytes.size() <= size) {
      break;
    }
    if (v4) {
      auto* in = reinterpret_cast<sockaddr_in*>(&address.storage);
      in->sin_family = AF_INET;
      std::memcpy(&in->sin_addr, bytes.data() + 1, size);
      address.size = sizeof *in;
    } else {
      auto* in = reinterpret_cast<sockaddr_in6*>(&address.storage);
      in->sin6_family = AF_INET6;
      std::memcpy(&in->sin6_addr, bytes.data() + 1, size);
      address.size = sizeof *in;
    }
    out.push_back(address);
    bytes.remove_prefix(size + 1);
  }
  return out;
}

bool denied_ipv4(const std::uint8_t* b) {
  const std::uint32_t ip = static_cast<std::uint32_t>(b[0]) << 24 |
                           static_cast<std::uint32_t>(b[1]) << 16 |
                           static_cast<std::uint32_t>(b[2]) << 8 | b[3];
  return b[0] == 0 || b[0] == 10 || b[0] == 127 || b[0] >= 224 || (ip >> 22) == 0x191 ||
         (ip >> 16) == 0xa9fe || (ip >> 20) == 0xac1 || (ip >> 8) == 0xc00000 ||
         (ip >> 8) == 0xc00002 || (ip >> 8) == 0xc05863 || (ip >> 16) == 0xc0a8 ||
         (ip >> 17) == 0x6309 || (ip >> 8) == 0xc63364 || (ip >> 8) == 0xcb0071;
}

/// SE-106 once more, by hand.
bool denied(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) {
    std::uint8_t four[4];
    std::memcpy(four, &reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr, 4);
    return denied_ipv4(four);
  }
  std::uint8_t b[16];
  std::memcpy(b, &reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr, 16);
  static constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  static constexpr std::uint8_t kNat64[12] = {0, 0x64, 0xff, 0x9b};
  static constexpr std::uint8_t kZero[12] = {};
  if (std::memcmp(b, kMapped, 12) == 0 || std::memcmp(b, kNat64, 12) == 0 ||
      std::memcmp(b, kZero, 12) == 0) {
    return denied_ipv4(b + 12);
  }
  const unsigned first = static_cast<unsigned>(b[0]) << 8 | b[1];
  const unsigned second = static_cast<unsigned>(b[2]) << 8 | b[3];
  return (first == 0x2002 && denied_ipv4(b + 2)) ||
         (first == 0x100 && std::memcmp(b + 2, kZero, 6) == 0) ||
         (first == 0x64 && second == 0xff9b && b[4] == 0 && b[5] == 1) ||
         (first == 0x2001 && (second < 0x200 || second == 0xdb8)) ||
         (first == 0x3fff && second < 0x1000) || first == 0x5f00 || (first >> 9) == 0x7e ||
         first >= 0xfe80;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto kJudge = *OutgoingJudge::make({});
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = text.find('\n');
  const auto target = kJudge->judge_url(text.substr(0, line));
  if (!target) {
    return 0;
  }
  if (target->host.empty() ||
      (target->port != 443 && target->port != 8443 && target->port != 9443) ||
      target->path.front() != '/' || target->path.find('#') != std::string::npos) {
    std::abort();
  }
  if (target->is_literal) {
    // What is dialled without a resolver.
    const auto literal = kintsugi::net::numeric_address(target->host, target->port);
    if (!literal || denied(*literal) || !kJudge->judge_literal(*target)) {
      std::abort();
    }
    return 0;
  }
  if (kintsugi::net::numeric_address(target->host, target->port)) {
    std::abort();
  }
  const std::vector<SocketAddress> answers =
      read_answers(line == std::string_view::npos ? std::string_view() : text.substr(line + 1));
  const auto judged = kJudge->judge_answers(*target, answers);
  bool bad = answers.empty();
  for (const SocketAddress& answer : answers) {
    bad = bad || denied(answer);
  }
  if (judged.has_value() == bad) {
    std::abort();
  }
  return 0;
}
