#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "apiserver/internal/encode.h"
#include "apiserver/internal/selection.h"
#include "base/bytes.h"
#include "store/undated.h"

namespace kintsugi::apiserver::internal {

enum class WatchType : std::uint8_t { kAdded, kModified, kDeleted };

/// The form in which a group of watches gets events; one instance per form while anybody uses it,
/// so that an event is encoded once for all.
using WatchEncoding = ObjectEncoder;
using WatchEncodingPtr = std::shared_ptr<const WatchEncoding>;

/// Bytes of one event on the wire (a JSON line or a protobuf frame); empty when it cannot be
/// encoded.
[[nodiscard]] SharedBytes encode_event(const WatchEncoding& encoding, WatchType type,
                                       std::string_view value, store::Revision revision,
                                       bool with_columns);
/// The same for an object in the version of the kind.
[[nodiscard]] SharedBytes encode_object_event(const WatchEncoding& encoding, WatchType type,
                                              const krm::Json& object, bool with_columns);
[[nodiscard]] SharedBytes encode_bookmark(const WatchEncoding& encoding, store::Revision revision,
                                          bool initial_end, bool with_columns);
[[nodiscard]] SharedBytes encode_error_event(const WatchEncoding& encoding, const Error& error);

/// One change on its way to watches. Parses and encodes at most once what they ask for. Lives for
/// the time of one dispatch.
class LiveEvent {
 public:
  explicit LiveEvent(const store::Event& event);

  [[nodiscard]] std::string_view key() const noexcept { return event_.key; }
  [[nodiscard]] store::Revision revision() const noexcept { return event_.revision; }
  [[nodiscard]] bool is_undated() const noexcept { return store::is_undated(event_); }

  /// What a watch with this selection sees; nullopt: nothing (10.1 rule 4).
  [[nodiscard]] std::optional<WatchType> seen_as(const Selection& selection);
  /// The stored bytes that a watch sees with an event of this type.
  [[nodiscard]] std::string_view value(WatchType type) const noexcept;
  /// The event's bytes, shared by all who ask for the same.
  [[nodiscard]] const SharedBytes& bytes(const WatchEncoding& encoding, WatchType type,
                                         bool with_columns);

 private:
  struct Encoded {
    const WatchEncoding* encoding;
    WatchType type;
    bool with_columns;
    SharedBytes bytes;
  };

  const store::Event& event_;
  std::optional<Candidate> before_, after_;
  std::vector<Encoded> encoded_;
};

}  // namespace kintsugi::apiserver::internal
