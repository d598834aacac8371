#pragma once

#include "common/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace gnn::client {

/// One page of a list, its objects not parsed yet: a page of large objects would take many times its
/// size.
struct ListPage {
  std::string resource_version;
  std::string continuation;             ///< empty: the last page
  std::vector<std::string_view> items;  ///< JSON texts, which point into the body
};

/// Finds a list's metadata and objects in the body of a reply. Looks into the objects only to find
/// their ends.
/// Errors: Data for what is no list.
[[nodiscard]] Result<ListPage> split_list(std::string_view body);

}  // namespace gnn::client
