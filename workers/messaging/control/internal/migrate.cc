#include "workers/messaging/control/internal/migrate.h"

#include <utility>
#include <vector>

#include "workers/messaging/model/migration.h"
#include "workers/runtime/control/outcome_of.h"

namespace kintsugi::workers {

namespace {

/// Addresses of one turn; the next follows at once.
constexpr std::size_t kAtOnce = 50;

struct Made {
  Outcome outcome;
  bool taken = false;  ///< by what was not made so
};

net::Task<Made> make_copy(Site& site, ObjectRefKey original, MessagingKind kind, krm::Json copy) {
  Made out;
  const std::string from(migrated_from(copy));
  const Key key{original.key.cluster, original.key.ns,
                std::string(copy.text({"metadata", "name"}))};
  ApiWrite write;
  write.method = "POST";
  write.path = object_path(kind, key.view());
  write.path.resize(write.path.rfind('/'));
  write.body = copy.dump();
  const Step step = site.step(original);
  net::Task<ApiAnswer> writing = site.unit().write(step, std::move(write));
  const ApiAnswer answer = co_await writing;
  if (!answer.is(409)) {
    out.outcome = outcome_of(answer, RequestKind::kUpdate);
    co_return out;
  }
  net::Task<ApiAnswer> asking = site.unit().api().get(object_path(kind, key.view()));
  const ApiAnswer has = co_await asking;
  out.taken = has.ok() && migrated_from(has.body) != from;
  co_return out;
}

}  // namespace

net::Task<Outcome> migrate_space(Site& site, ObjectRefKey space) {
  net::Task<ApiAnswer> asking = site.unit().api().get(object_path(space.kind, space.key.view()));
  const ApiAnswer original = co_await asking;
  if (original.says_missing()) {
    co_return Outcome::done();
  }
  if (!original.ok()) {
    co_return outcome_of(original, RequestKind::kRead);
  }
  const std::optional<MigrationWish> wish = migration_of(original.body);
  if (!wish) {
    co_return Outcome::done();
  }
  const ObjectCache<CachedSpace>& spaces = *site.directory().address_spaces;
  if (Directory::find(spaces, {space.key.cluster, space.key.ns, wish->name}) == nullptr) {
    net::Task<Made> making =
        make_copy(site, space, MessagingKind::kAddressSpace, migrated_space(original.body, *wish));
    const Made made = co_await making;
    if (made.outcome.kind != Outcome::Kind::kDone) {
      co_return made.outcome;
    }
  }
  const auto* const copy = Directory::find(spaces, {space.key.cluster, space.key.ns, wish->name});
  if (copy != nullptr && copy->parsed.object.migrated_from != space.key.name) {
    site.tell(space, {true, "MigrationNameTaken",
                      "there is an AddressSpace " + wish->name + " that is no copy of it"});
    co_return Outcome::done();
  }
  std::vector<Key> missing;
  site.directory().each_address_of(space, [&](MessagingKind kind, const QueueKey& key) {
    if (kind != MessagingKind::kAddress || missing.size() > kAtOnce) {
      return;
    }
    const std::string name = migrated_address_name(key.name, space.key.name, *wish);
    if (!name.empty() && Directory::find(*site.directory().addresses,
                                         {space.key.cluster, space.key.ns, name}) == nullptr) {
      missing.push_back({std::string(key.cluster), std::string(key.ns), std::string(key.name)});
    }
  });
  const bool more = missing.size() > kAtOnce;
  for (std::size_t i = 0; i < missing.size() && i < kAtOnce; ++i) {
    std::string path = object_path(MessagingKind::kAddress, missing[i].view());
    net::Task<ApiAnswer> reading = site.unit().api().get(std::move(path));
    const ApiAnswer address = co_await reading;
    std::optional<krm::Json> made_of =
        address.ok() ? migrated_address(address.body, space.key.name, *wish) : std::nullopt;
    if (!made_of) {
      continue;
    }
    net::Task<Made> making = make_copy(site, space, MessagingKind::kAddress, std::move(*made_of));
    const Made made = co_await making;
    if (made.outcome.kind == Outcome::Kind::kError ||
        made.outcome.kind == Outcome::Kind::kRequeueAfter) {
      co_return made.outcome;
    }
  }
  co_return more ? Outcome::requeue_after({}) : Outcome::done();
}

}  // namespace kintsugi::workers
