#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "aggregation/bytes/json_list.h"

/// The protobuf forms of lists and watch streams taken apart into spans of bytes, as they arrive
/// (AGG-1401). Only envelopes and metadata are looked at; the rest of an object is
/// somebody else's to check. Cost is linear, memory bounded, whatever the bytes are.
namespace kintsugi::aggregation {

/// Cuts a watch stream into frames: four bytes of length, then a WatchEvent. A frame inside one
/// piece of bytes is not copied.
class FrameSplitter {
 public:
  using Fault = EventSplitter::Fault;
  /// @param max_bytes  of one frame without its length (AGG-1205)
  explicit FrameSplitter(std::size_t max_bytes) noexcept : max_bytes_(max_bytes) {}

  /// Calls `take` with each frame that is complete now, its four bytes of length included; views
  /// hold during the call. After a fault nothing more is understood. Never kMalformed: any bytes
  /// are a length. A frame that is too large is told when its beginning is there.
  [[nodiscard]] Fault feed(std::string_view bytes,
                           const std::function<void(std::string_view frame)>& take);
  /// No frame is incomplete.
  [[nodiscard]] bool at_boundary() const noexcept { return partial_.empty(); }
  /// The beginning of the frame that is incomplete, or a few KiB of one that is too large.
  [[nodiscard]] std::string_view incomplete() const noexcept { return partial_; }

 private:
  [[nodiscard]] bool keep_beginning(std::string_view& bytes);
  std::size_t max_bytes_;
  std::string partial_;
};

/// What a message of an object says: an item of a list, or what an envelope holds. kind and
/// apiVersion are not in it. metadata: the first ObjectMeta message. annotations: always "", they
/// are no contiguous span. nullopt: malformed, or no metadata.
[[nodiscard]] std::optional<ObjectFacts> proto_item_facts(std::string_view message);
/// Of an enveloped object ("k8s\0…"). nullopt too when the content is not plain protobuf.
[[nodiscard]] std::optional<ObjectFacts> proto_object_facts(std::string_view enveloped);
/// Of a frame with its length. `object` is the envelope. Errors may lack metadata.
[[nodiscard]] std::optional<EventFacts> proto_event_facts(std::string_view frame);

/// Takes a list's body apart while it arrives: item messages one by one, the rest as it comes.
/// shard_info of the envelope is a raw message. Memory: one item, and 1 MiB for anything else.
class ProtoListSplitter {
 public:
  using Fault = ListSplitter::Fault;
  explicit ProtoListSplitter(std::size_t max_item) noexcept : max_item_(max_item) {}

  [[nodiscard]] Fault feed(std::string_view bytes,
                           const std::function<void(std::string_view item)>& take);
  /// The list is complete if the body ends here: a few bytes without meaning may still follow.
  [[nodiscard]] bool done() const noexcept {
    return state_ == State::kTag && has_raw_ && !in_raw_ && head_.empty();
  }
  [[nodiscard]] const ListEnvelope& envelope() const noexcept { return envelope_; }

 private:
  enum class State : std::uint8_t { kMagic, kTag, kValue };
  Fault read_head(std::string_view& bytes);
  bool finish_value(std::string_view value, const std::function<void(std::string_view)>& take);
  bool read_type(std::string_view message);
  bool read_list_meta(std::string_view message);
  void spend(std::size_t size) noexcept;

  std::size_t max_item_;
  State state_ = State::kMagic;
  bool in_raw_ = false, has_raw_ = false;
  std::uint64_t raw_left_ = 0;  // of the object's message, while in it
  std::uint32_t field_ = 0;     // whose value is awaited
  std::size_t need_ = 0;        // size of that value
  std::string head_;            // magic, or tag and length, as far as they came
  std::string value_;           // as far as it came
  ListEnvelope envelope_;
};

}  // namespace kintsugi::aggregation
