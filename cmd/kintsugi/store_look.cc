#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "apiserver/stored_object.h"
#include "base/strings.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/store_copy.h"
#include "cmd/kintsugi/store_key.h"
#include "store/etcd/etcd_prefix.h"

namespace kintsugi::cmd {
namespace {

using Store = store::EtcdPrefix;

void print_line(store::Revision revision, const char* what, std::size_t bytes,
                std::string_view key) {
  std::printf("%llu %s%zu %s\n", static_cast<unsigned long long>(revision), what, bytes,
              shown_key(key).c_str());
}

Expected<void> get(Store& store, const StoreLook& look) {
  const auto value = store.get(stored_key(look.key));
  if (!value) {
    return fail(value.error().code() == Errc::kNotFound
                    ? Error(Errc::kNotFound, "--key: there is no object " + look.key)
                    : value.error().clone());
  }
  // Of an object its JSON; of a record, and of what is encrypted, the bytes as they are.
  const auto object = apiserver::StoredView::parse(*value);
  const std::string_view text = object ? object->text() : std::string_view(*value);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::printf("\n");
  return {};
}

Expected<void> list(Store& store, const StoreLook& look) {
  const std::string begin = stored_key(look.key);
  std::uint64_t rows = 0;
  std::vector<std::string> damaged;
  auto done = store.each(
      [&](const store::EntryView& row) -> Expected<void> {
        if (row.key.starts_with(begin)) {
          print_line(row.modified, "", row.value.size(), row.key);
          ++rows;
        }
        return {};
      },
      &damaged);
  for (const std::string& key : damaged) {
    std::printf("damaged %s\n", shown_key(key).c_str());
  }
  std::fprintf(stderr, "%llu objects\n", static_cast<unsigned long long>(rows));
  return done && !damaged.empty()
             ? fail(Errc::kCorrupt, std::to_string(damaged.size()) + " records are damaged")
             : std::move(done);
}

Expected<void> events(Store& store, const StoreLook& look) {
  const auto after = look.after.empty() ? std::optional<std::uint64_t>(0)
                                        : parse_decimal<std::uint64_t>(look.after);
  if (!after) {
    return fail(Errc::kConfig, "--after: must be a resourceVersion, it is \"" + look.after + '"');
  }
  const std::string begin = stored_key(look.key);
  const auto first = store.each_event(*after, [&begin](const Store::Event& event) {
    if (event.key.starts_with(begin)) {
      print_line(event.revision,
                 event.is_delete    ? "DELETE "
                 : event.is_damaged ? "DAMAGED "
                                    : "PUT ",
                 event.value.size(), event.key);
    }
  });
  if (!first) {
    return fail(first.error().clone());
  }
  std::fprintf(stderr, "history from revision %llu on\n", static_cast<unsigned long long>(*first));
  return {};
}

}  // namespace

int run_store_look(const std::string& action, StoreLook look) {
  const std::string command = "store " + action;
  if (action == "get" && look.key.empty()) {
    return complain(command, "--key is required, as `kintsugi store list` shows it", 2);
  }
  const auto prefix = open_prefix(command, look.from, look.etcd);
  if (!prefix) {
    return prefix.error();
  }
  Store& store = *prefix->store;
  const auto found = store.look();
  if (!found) {
    return complain(command, found.error());
  }
  if (found->kind == Store::Kind::kEmpty || found->kind == Store::Kind::kForeign) {
    return complain(command, prefix->name + " in etcd: no store is there");
  }
  const auto done = action == "get"    ? get(store, look)
                    : action == "list" ? list(store, look)
                                       : events(store, look);
  return done ? 0 : complain(command, done.error(), done.error().code() == Errc::kConfig ? 2 : 1);
}

}  // namespace kintsugi::cmd
