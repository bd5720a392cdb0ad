#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"

/// gRPC over HTTP/2 without sockets: messages in frames, and how a call ended. Source: the gRPC
/// document "gRPC over HTTP2"; docs/decisions/0014-etcd-store.md.
namespace kintsugi::store::etcd {

/// 0 (not compressed), the size in 4 bytes, the message.
inline constexpr std::size_t kFrameHeader = 5;
/// Appends one frame.
void put_frame(std::string& out, std::string_view message);

/// Takes a body apart into messages, however it is cut. Memory: one message of at most `limit`
/// bytes.
class FrameReader {
 public:
  explicit FrameReader(std::size_t limit) noexcept : limit_(limit) {}

  using Visitor = std::function<void(std::string_view message)>;
  /// Messages that are complete now; views are valid during the call only.
  /// @error kProtocol a compressed message, kRequestEntityTooLarge a larger one than the limit;
  /// nothing more is read.
  [[nodiscard]] Expected<void> feed(std::string_view bytes, const Visitor& visit);
  /// A body may end here.
  [[nodiscard]] bool at_boundary() const noexcept { return held_.empty() && !failed_; }

 private:
  [[nodiscard]] Expected<std::size_t> size_of(std::string_view header);

  std::size_t limit_;
  std::string held_;  // a frame that is not complete yet
  bool failed_ = false;
};

/// Codes of gRPC that are told apart here.
enum class GrpcCode : std::uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

struct GrpcStatus {
  GrpcCode code = GrpcCode::kOk;
  std::string message;
};
/// From the fields grpc-status and grpc-message (percent-encoded). A code that is no number of 0 to
/// 16 is kUnknown.
[[nodiscard]] GrpcStatus parse_status(std::string_view code, std::string_view message);

/// Value of grpc-timeout: at most 8 digits and a unit.
[[nodiscard]] std::string timeout_text(std::int64_t milliseconds);

}  // namespace kintsugi::store::etcd
