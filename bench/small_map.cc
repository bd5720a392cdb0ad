/// Preloaded by instructions.py: valgrind has no room for the map of a store (64 GiB).
#include <dlfcn.h>

#include <algorithm>
#include <cstddef>

struct MDB_env;

extern "C" int mdb_env_set_mapsize(MDB_env* env, std::size_t size) {
  using Function = int (*)(MDB_env*, std::size_t);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "mdb_env_set_mapsize"));
  return real(env, std::min(size, std::size_t{1} << 30));
}
