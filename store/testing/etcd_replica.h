#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/etcd/etcd_store.h"
#include "store/testing/etcd_server.h"

/// Stores on a real etcd, for tests. Included by tests only.
namespace kintsugi::store {

/// One server for all tests; each has a prefix of its own.
inline EtcdServer& test_etcd() {
  static EtcdServer one;
  return one;
}

/// Replica of one prefix.
class Replica {
 public:
  Replica(const std::string& url, const std::string& prefix)
      : Replica(std::vector<std::string>{url}, prefix) {}
  Replica(const std::vector<std::string>& urls, const std::string& prefix) {
    params_.endpoints = urls;
    params_.prefix = prefix;
    params_.mirror_directory = directory_.data();
    reopen();
  }
  void reopen() {
    store_.reset();
    auto opened = EtcdStore::open(params_);
    ASSERT_TRUE(opened) << opened.error().to_string();
    store_ = std::move(*opened);
  }
  void close() { store_.reset(); }
  [[nodiscard]] EtcdStore& operator*() const { return *store_; }
  [[nodiscard]] EtcdStore* operator->() const { return store_.get(); }
  [[nodiscard]] EtcdParams& params() { return params_; }

 private:
  TempDir directory_;
  EtcdParams params_;
  std::unique_ptr<EtcdStore> store_;
};

inline Revision synchronized(Store& store) {
  std::promise<Revision> done;
  store.synchronize([&done](const Expected<Revision>& at) { done.set_value(at ? *at : 0); });
  return done.get_future().get();
}

}  // namespace kintsugi::store
