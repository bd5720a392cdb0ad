#pragma once

#include <string>
#include <utility>

#include "net/loop.h"
#include "net/upstream.h"
#include "store/etcd/wire/frames.h"
#include "store/etcd/wire/messages.h"
#include "store/store.h"
#include "store/testing/etcd_replica.h"

/// What somebody does to the etcd of tests as etcdctl would, without the store's knowing. Included
/// by tests only.
namespace kintsugi::store {

/// @returns false: there was no answer.
inline bool call_raw(const std::string& url, const std::string& method,
                     const std::string& message) {
  net::Loop loop("raw");
  net::UpstreamParams params;
  params.url = *net::Url::parse(url);
  params.prior_knowledge = true;
  const auto upstream = net::Upstream::make(loop, std::move(params));
  net::FetchRequest request;
  request.method = "POST";
  request.target = "/etcdserverpb.KV/" + method;
  request.headers.add("content-type", "application/grpc");
  request.headers.add("te", "trailers");
  etcd::put_frame(request.body, message);
  bool fine = false;
  const auto call = net::fetch(loop, *upstream, std::move(request),
                               [&](const Expected<net::FetchResponse>& response) {
                                 fine = response && response->body.size() > etcd::kFrameHeader;
                                 loop.stop();
                               });
  loop.run();
  return fine;
}
inline bool put_raw(const std::string& key, const std::string& value) {
  return call_raw(test_etcd().url(), "Put", etcd::encode_put(key, value));
}
/// @param revision  of etcd
inline bool compact_raw(const std::string& url, Revision revision) {
  return call_raw(url, "Compact", etcd::encode_compaction(revision));
}

}  // namespace kintsugi::store
