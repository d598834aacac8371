#pragma once

#include "common/result.h"

#include <ostream>
#include <string>

namespace gnn::app {

/// Where a report comes from, and where it goes.
struct ReportRequest {
  std::string run;     ///< the folder of a run's checkpoints, or the record in it
  std::string output;  ///< file to write
};

/// Writes the page that shows the record of a run to the file, in place of one that is there, and
/// prints its path.
/// Errors: Data naming the record if it is damaged or of another version; NotFound naming the folder and
/// what is there instead; Io.
[[nodiscard]] Status report_run(const ReportRequest& request, std::ostream& out);

}  // namespace gnn::app
