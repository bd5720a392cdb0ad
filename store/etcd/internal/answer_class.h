#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "store/etcd/wire/frames.h"

/// What a failed call means for the transaction that it carried (GR-107). Pure.
namespace kintsugi::store::etcd {

struct AnswerClass {
  enum class Outcome : std::uint8_t {
    kNotDone,  ///< nothing was executed
    kUnknown,  ///< it may have been, or may still be
  } outcome = Outcome::kUnknown;
  /// kNotDone: kOk means "again, at another member"; anything else is the answer.
  Errc error = Errc::kOk;
  bool renew_token = false;  ///< of a user; then again
};

[[nodiscard]] AnswerClass classify(const GrpcStatus& status);
/// Of a call that ended without a status.
[[nodiscard]] AnswerClass classify(Errc transport);

/// "etcdserver: mvcc: required revision has been compacted".
[[nodiscard]] bool is_compacted(const GrpcStatus& status);
/// "etcdserver: mvcc: required revision is a future revision".
[[nodiscard]] bool is_future(const GrpcStatus& status);

}  // namespace kintsugi::store::etcd
