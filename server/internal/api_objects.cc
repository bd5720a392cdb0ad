#include "server/internal/api_objects.h"

#include <utility>

namespace kintsugi::server {
namespace {

constexpr const char* kManager = "kintsugi";

}  // namespace

apiserver::ApiServer::WriteRequest ApiObjects::request(std::string_view cluster,
                                                       std::string_view group,
                                                       std::string_view resource) const {
  apiserver::ApiServer::WriteRequest write;
  write.cluster = cluster;
  write.group = group;
  write.resource = resource;
  write.manager = kManager;
  write.skip_admission = true;
  write.fence = fence_;
  return write;
}

void ApiObjects::write(apiserver::ApiServer::WriteRequest request, Done done) {
  server_.write(std::move(request), alive_.guard(std::move(done)));
}

std::optional<krm::Json> ApiObjects::get(std::string_view cluster, std::string_view group,
                                         std::string_view resource, std::string_view name) const {
  return server_.reader().get(cluster, group, resource, "", name);
}

void ApiObjects::list(std::string_view cluster, std::string_view group, std::string_view resource,
                      const std::function<bool(const krm::Json&)>& visit) const {
  server_.reader().list(cluster, group, resource, "", visit);
}

void ApiObjects::create(std::string_view cluster, std::string_view group, std::string_view resource,
                        krm::Json object, Done done) {
  auto write = request(cluster, group, resource);
  write.name = object.text({"metadata", "name"});
  write.what = apiserver::ApiServer::CreateObject{std::move(object)};
  this->write(std::move(write), std::move(done));
}

void ApiObjects::adopt(std::string_view cluster, std::string_view group, std::string_view resource,
                       krm::Json object, Done done) {
  auto write = request(cluster, group, resource);
  write.name = object.text({"metadata", "name"});
  write.what = apiserver::ApiServer::CreateObject{std::move(object), true};
  this->write(std::move(write), std::move(done));
}

void ApiObjects::update(std::string_view cluster, std::string_view group, std::string_view resource,
                        std::string_view subresource, krm::Json object, Done done) {
  auto write = request(cluster, group, resource);
  write.name = object.text({"metadata", "name"});
  write.what = apiserver::ApiServer::UpdateObject{std::move(object), std::string(subresource)};
  this->write(std::move(write), std::move(done));
}

void ApiObjects::remove(std::string_view cluster, std::string_view group, std::string_view resource,
                        std::string_view name, std::string_view uid, Done done) {
  auto write = request(cluster, group, resource);
  write.name = name;
  write.what = apiserver::ApiServer::DeleteObject{std::string(uid)};
  this->write(std::move(write), std::move(done));
}

std::shared_ptr<void> ApiObjects::on_change(std::string_view group, std::string_view resource,
                                            std::function<void(const Change&)> listener) {
  return server_.on_change(
      group, resource,
      [listener = std::move(listener)](const apiserver::ApiServer::Change& change) {
        listener({change.cluster, change.group, change.resource, change.name, change.object.get(),
                  change.previous.get()});
      });
}

}  // namespace kintsugi::server
