#include "common/out_of_memory.h"

#include <new>
#include <string_view>

namespace gnn {

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  const std::string_view what = error.what();
  return what.find("can't allocate memory") != std::string_view::npos ||
         what.find("out of memory") != std::string_view::npos;
}

}  // namespace gnn
