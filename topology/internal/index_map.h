#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"

namespace kintsugi::topology {

/// Counted pointer to a tree node. Unlike std::shared_ptr, unique() synchronises with the release
/// of the last other reference, so that the writer may change a node in place once no snapshot
/// holds it. Threads: the count is atomic, the pointer itself belongs to one thread.
template <class Node>
class NodePtr {
 public:
  NodePtr() noexcept = default;
  NodePtr(const NodePtr& other) noexcept : node_(other.node_) {
    if (node_ != nullptr) {
      node_->references.fetch_add(1, std::memory_order_relaxed);
    }
  }
  NodePtr(NodePtr&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodePtr& operator=(NodePtr other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodePtr() {
    if (node_ != nullptr && node_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete node_;
    }
  }
  [[nodiscard]] explicit operator bool() const noexcept { return node_ != nullptr; }
  [[nodiscard]] const Node* get() const noexcept { return node_; }
  /// Write access: the node itself when nobody else holds it, else a copy that replaces it here.
  [[nodiscard]] Node& edit() {
    if (node_ == nullptr) {
      node_ = new Node();
    } else if (node_->references.load(std::memory_order_acquire) != 1) {
      NodePtr copy;
      copy.node_ = new Node(*node_);
      *this = std::move(copy);
    }
    return *node_;
  }

 private:
  Node* node_ = nullptr;
};

/// A persistent map from short keys to short values, made for 100,000 facts that one thread changes
/// and many threads read. Copying a map is one reference; a change copies one bucket (about 6
/// entries at 100,000) and, once per snapshot, its page and the root.
/// Shape: 128 pages of 128 buckets; a bucket is one block of packed entries (5 bytes + key +
/// value), without slack. Keys 1..255 bytes, values 0..65,535 bytes.
/// Cost: find 50-100 ns, put 0.2-0.5 us, and 1 us for the first change of a page in a snapshot.
/// Threads: each copy as an int; copies are independent.
class IndexMap {
 public:
  struct Entry {
    std::string_view key;    ///< points into the map
    std::string_view value;  ///< points into the map
  };
  /// The entry of `key`; its views live until this map changes and, for a copy, as long as the
  /// copy.
  [[nodiscard]] std::optional<Entry> find(std::string_view key) const noexcept;
  /// False when nothing changed: the value was there already, or a limit of the shape is exceeded.
  bool put(std::string_view key, std::string_view value);
  /// False when the key was absent.
  bool erase(std::string_view key);
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Heap in use, with 16 bytes of allocator overhead per block [bytes].
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Calls `visit(Entry)` for every entry, in no order.
  template <class Visit>
  void for_each(Visit visit) const {
    if (!root_) {
      return;
    }
    for (const NodePtr<Page>& page : root_.get()->pages) {
      if (!page) {
        continue;
      }
      for (const SharedBytes& bucket : page.get()->buckets) {
        std::string_view rest = bucket.view();
        while (!rest.empty()) {
          const Packed packed = unpack(rest);
          visit(Entry{packed.key, packed.value});
          rest.remove_prefix(packed.size);
        }
      }
    }
  }

 private:
  static constexpr std::size_t kFanout = 128;
  static constexpr std::size_t kHeader = 5;  // fingerprint 2, key length 1, value length 2
  struct Page {
    Page() = default;
    Page(const Page& other) : buckets(other.buckets) {}
    std::atomic<std::uint32_t> references{1};
    std::array<SharedBytes, kFanout> buckets;
  };
  struct Root {
    Root() = default;
    Root(const Root& other) : pages(other.pages) {}
    std::atomic<std::uint32_t> references{1};
    std::array<NodePtr<Page>, kFanout> pages;
  };
  struct Packed {
    std::uint16_t fingerprint;
    std::size_t size;
    std::string_view key, value;
  };
  struct Place {
    std::size_t page, bucket;
    std::uint16_t fingerprint;
  };
  static Packed unpack(std::string_view bytes) noexcept;
  static Place place_of(std::string_view key) noexcept;
  static std::optional<std::pair<std::size_t, Packed>> search(std::string_view bucket,
                                                              std::uint16_t fingerprint,
                                                              std::string_view key) noexcept;
  [[nodiscard]] std::string_view bucket_at(const Place& place) const noexcept;

  NodePtr<Root> root_;
  std::size_t size_ = 0;
};

/// Builds the packed value of a fact; the reader below takes it apart in the same order.
class FactWriter {
 public:
  FactWriter& u8(std::uint8_t value) {
    out_.push_back(static_cast<char>(value));
    return *this;
  }
  FactWriter& u32(std::uint32_t value) {
    char raw[sizeof(value)];
    std::memcpy(raw, &value, sizeof(value));
    out_.append(raw, sizeof(raw));
    return *this;
  }
  FactWriter& u64(std::uint64_t value) {
    char raw[sizeof(value)];
    std::memcpy(raw, &value, sizeof(value));
    out_.append(raw, sizeof(raw));
    return *this;
  }
  /// Length in two bytes; longer texts are cut (callers check before).
  FactWriter& text(std::string_view value) {
    const auto length = static_cast<std::uint16_t>(value.size());
    u8(static_cast<std::uint8_t>(length & 0xFFU)).u8(static_cast<std::uint8_t>(length >> 8U));
    out_.append(value.substr(0, length));
    return *this;
  }
  FactWriter& raw(std::string_view value) {
    out_.append(value);
    return *this;
  }
  [[nodiscard]] const std::string& bytes() const noexcept { return out_; }

 private:
  std::string out_;
};

/// Reads what FactWriter wrote. The input comes from this process, so there is nothing to validate.
class FactReader {
 public:
  explicit FactReader(std::string_view bytes) noexcept : rest_(bytes) {}
  std::uint8_t u8() noexcept {
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  std::uint32_t u32() noexcept {
    std::uint32_t value = 0;
    std::memcpy(&value, rest_.data(), sizeof(value));
    rest_.remove_prefix(sizeof(value));
    return value;
  }
  std::uint64_t u64() noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, rest_.data(), sizeof(value));
    rest_.remove_prefix(sizeof(value));
    return value;
  }
  std::string_view text() noexcept {
    const std::size_t low = u8();
    const std::size_t length = low | (static_cast<std::size_t>(u8()) << 8U);
    const std::string_view value = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return value;
  }
  [[nodiscard]] std::string_view rest() const noexcept { return rest_; }
  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace kintsugi::topology
