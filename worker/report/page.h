#pragma once

#include "worker/report/run_record.h"

#include <string>
#include <string_view>

namespace gnn::report {

/// A page that shows the record: one HTML file that loads nothing. Its policy lets no script or style
/// run but its own, by their hashes; the record is in it as data.
[[nodiscard]] std::string page_of(const RunRecord& record);

/// JSON that can stand within a script element, and within a script of old: `<`, U+2028 and U+2029
/// are escaped.
[[nodiscard]] std::string escape_for_script(std::string_view json);

}  // namespace gnn::report
