#include "net/port_claim.h"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

namespace kintsugi::net {
namespace {

std::atomic<bool> g_shared{false};

/// Listeners of this process by "<address>:<port>".
struct Ports {
  std::mutex mutex;
  std::map<std::string, int> listeners;
};

Ports& ports() {
  static auto* const all = new Ports();  // listeners may end after statics do
  return *all;
}

std::string key_of(const std::string& address, std::uint16_t port) {
  return address + ":" + std::to_string(port);
}

}  // namespace

void permit_port_sharing() noexcept { g_shared.store(true, std::memory_order_relaxed); }

bool PortClaim::joins(const std::string& address, std::uint16_t port) {
  const std::scoped_lock lock(ports().mutex);
  return g_shared.load(std::memory_order_relaxed) ||
         ports().listeners.contains(key_of(address, port));
}

void PortClaim::take(const std::string& address, std::uint16_t port) {
  release();
  key_ = key_of(address, port);
  const std::scoped_lock lock(ports().mutex);
  ++ports().listeners[key_];
}

void PortClaim::release() noexcept {
  if (key_.empty()) {
    return;
  }
  const std::scoped_lock lock(ports().mutex);
  const auto found = ports().listeners.find(key_);
  if (--found->second == 0) {
    ports().listeners.erase(found);
  }
  key_.clear();
}

}  // namespace kintsugi::net
