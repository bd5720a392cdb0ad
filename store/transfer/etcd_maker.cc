#include "store/transfer/etcd_maker.h"

#include <utility>

#include "store/etcd/etcd_prefix.h"
#include "store/transfer/internal/row_sum.h"

namespace kintsugi::store {

struct EtcdMaker::Parts {
  std::string from, place;  ///< what is copied, and where to
  std::unique_ptr<EtcdPrefix> prefix;
  RowSum sum;
};

EtcdMaker::EtcdMaker(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
EtcdMaker::~EtcdMaker() = default;

Expected<std::unique_ptr<EtcdMaker>> EtcdMaker::make(EtcdParams etcd, const std::string& backup) {
  auto parts = std::make_unique<Parts>();
  parts->from = std::string(EtcdPrefix::kOfBackup) + backup;
  parts->place = etcd.prefix + " in etcd";
  auto prefix = EtcdPrefix::open(std::move(etcd));
  if (!prefix) {
    return fail(std::move(prefix.error()));
  }
  parts->prefix = std::move(*prefix);
  const auto content = parts->prefix->look();
  if (!content) {
    return fail(content.error().clone());
  }
  const bool is_unfinished = content->kind == EtcdPrefix::Kind::kCopying &&
                             content->place.starts_with(EtcdPrefix::kOfBackup);
  if (content->kind != EtcdPrefix::Kind::kEmpty && !is_unfinished) {
    return fail(Errc::kConfig, parts->place + ": is not empty");
  }
  return std::unique_ptr<EtcdMaker>(new EtcdMaker(std::move(parts)));
}

Expected<void> EtcdMaker::begin(Revision after) {
  return parts_->prefix->begin(parts_->from, after);
}

Expected<void> EtcdMaker::put(const EntryView& row) {
  parts_->sum.add(row.key, row.value);
  return parts_->prefix->put(row);
}

Expected<EtcdMaker::Made> EtcdMaker::check() {
  const auto revision = parts_->prefix->flush();
  if (!revision) {
    return fail(revision.error().clone());
  }
  RowSum found;
  auto read = parts_->prefix->each([&found](const EntryView& row) {
    found.add(row.key, row.value);
    return Expected<void>();
  });
  if (!read) {
    return fail(std::move(read.error()));
  }
  if (found != parts_->sum) {
    return fail(Errc::kCorrupt, parts_->place + ": of " + std::to_string(parts_->sum.rows()) +
                                    " objects that were written, " + std::to_string(found.rows()) +
                                    " are there, or not all are the same");
  }
  return Made{*revision, found.rows()};
}

Expected<void> EtcdMaker::publish(const std::vector<std::unique_ptr<EtcdMaker>>& makers) {
  std::vector<EtcdPrefix*> prefixes;
  prefixes.reserve(makers.size());
  for (const auto& maker : makers) {
    prefixes.push_back(maker->parts_->prefix.get());
  }
  return EtcdPrefix::finish_all(prefixes);
}

}  // namespace kintsugi::store
