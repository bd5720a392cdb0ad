#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/strings.h"

/// Keeps transactions that touch the same key in the order that they came in, while others overtake
/// them (GR-104). A key is taken alone by who writes it, and by several who compare it only. Pure.
namespace kintsugi::store::etcd {

struct KeyUse {
  std::string key;
  bool shared = false;
};

class KeyOrder {
 public:
  /// @param number  never used before. Appends to `ready` who may go now.
  void add(std::uint64_t number, std::vector<KeyUse> uses, std::vector<std::uint64_t>& ready);
  void remove(std::uint64_t number, std::vector<std::uint64_t>& ready);
  [[nodiscard]] std::size_t size() const noexcept { return owners_.size(); }

 private:
  struct Waiter {
    std::uint64_t number = 0;
    bool shared = false;
    bool granted = false;
  };
  struct Owner {
    std::vector<KeyUse> uses;
    std::size_t missing = 0;  // keys that it does not have yet
  };
  void grant(std::deque<Waiter>& line, std::vector<std::uint64_t>& ready);

  StringMap<std::deque<Waiter>> lines_;
  std::unordered_map<std::uint64_t, Owner> owners_;
};

}  // namespace kintsugi::store::etcd
