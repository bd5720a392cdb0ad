#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "auth/user.h"
#include "base/error.h"
#include "net/loop.h"
#include "proxy/reviews/shard_reviews.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// Admission of APIExportEndpointSlices (T-13): may this user bind the export
/// that the slice names? Threads: one loop.
class BindCheck {
 public:
  BindCheck(net::Loop& loop, std::shared_ptr<topology::SnapshotView> view, FindReviewTarget find,
            ShardReviews& reviews);
  ~BindCheck();

  struct Question {
    auth::UserInfo user;
    std::string cluster;  ///< logical cluster of the slice
    std::string path,
        name;  ///< spec.export; path "" = own cluster, where the export may be missing
    std::string slice_name;  ///< name, else generateName
  };
  /// @error kForbidden one text for every refusal: not found, denied, no opinion, review failed;
  ///        kUnavailable while the export's cluster is not known or its shard is down (REQUIRED
  ///        T-13).
  void check(Question question, std::function<void(Expected<void>)> done);

 private:
  struct Running;
  void review(const std::shared_ptr<Running>& running);

  net::Loop& loop_;
  std::shared_ptr<topology::SnapshotView> view_;
  FindReviewTarget find_;
  ShardReviews& reviews_;
  std::unordered_map<const Running*, std::shared_ptr<Running>> running_;
};

}  // namespace kintsugi::proxy
