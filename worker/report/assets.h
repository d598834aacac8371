#pragma once

#include <string_view>

namespace gnn::report {

// The files page.html, page.css and page.js of this folder, as they are.
extern const std::string_view kPageTemplate;
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace gnn::report
