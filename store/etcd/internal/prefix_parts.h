#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "net/loop.h"
#include "store/etcd/etcd_prefix.h"
#include "store/etcd/internal/blocking.h"
#include "store/etcd/internal/client.h"
#include "store/etcd/internal/introduction.h"
#include "store/etcd/internal/keys.h"
#include "store/etcd/internal/members.h"
#include "store/etcd/internal/stored_value.h"
#include "store/etcd/internal/watch_joiner.h"
#include "store/etcd/wire/messages.h"

namespace kintsugi::store {

/// What a tool knows of a prefix, and how it reads and writes there.
struct EtcdPrefix::Parts {
  explicit Parts(EtcdParams given)
      : params(std::move(given)),
        loop("etcd-tool"),
        keys(params.prefix + "/"),
        ids(random_number()) {}

  EtcdParams params;
  net::Loop loop;
  const etcd::Keys keys;
  etcd::TransactionIds ids;
  std::unique_ptr<etcd::Client> client;
  std::unique_ptr<etcd::MemberChoice> choice;
  std::unique_ptr<etcd::Introduction> introduction;

  std::optional<etcd::Introduction::Known> known;
  std::uint64_t head = 0;  // etcd's, as of which is read
  std::vector<etcd::TxnOp> gathered;
  std::size_t gathered_bytes = 0;
  std::string id;           // of what is gathered
  std::uint64_t lease = 0;  // of the key that holds history

  template <typename T>
  T wait_for(net::Task<T> task) {
    return etcd::run_until_done(loop, std::move(task));
  }

  /// What `known` and `head` say.
  Expected<Content> content();

  /// Again where nothing can have gone wrong by that.
  Expected<std::string> call(std::string_view method, const std::string& message);
  Expected<etcd::RangeResponse> range(const etcd::RangeRequest& request, std::string& bytes);
  /// Where the record is as it was found. @returns the revision of it.
  Expected<std::uint64_t> write(std::vector<etcd::TxnOp> ops,
                                std::vector<etcd::Compare> compares = {});
  /// The record becomes this one, and `more` happens.
  Expected<void> write_meta(etcd::Meta meta, std::vector<etcd::TxnOp> more,
                            std::vector<etcd::Compare> compares = {});
  [[nodiscard]] etcd::TxnOp removal_of(const std::string& begin) const;
  Expected<void> visit_page(const etcd::RangeResponse& page, const RowVisit& visit,
                            std::vector<std::string>* damaged);
  void visit_group(const etcd::RevisionGroup& group, const EventVisit& visit) const;
  /// Events of etcd's revisions after `from` up to `until`, where one is of the prefix.
  /// @returns how the watch ended: kNothing all has been visited.
  Expected<etcd::Joined> events(std::uint64_t from, std::uint64_t until, const EventVisit& visit);
  using PageVisit = std::function<Expected<void>(const etcd::RangeResponse& page)>;

  Expected<void> each(const std::string& prefix, const RowVisit& visit,
                      std::vector<std::string>* damaged, std::uint64_t after = 0);
  /// @param request  what to ask for, but of which keys
  Expected<void> each_page(const std::string& prefix, etcd::RangeRequest request,
                           const PageVisit& visit);
};

}  // namespace kintsugi::store
