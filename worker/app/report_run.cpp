#include "worker/app/report_run.h"

#include "common/api/codec.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/checkpoint/file_ops.h"
#include "worker/report/page.h"
#include "worker/report/record_json.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

namespace gnn::app {
namespace {

namespace fs = std::filesystem;

// What a folder without a record has instead.
std::string why_none(const fs::path& folder, checkpoint::FileOps& files) {
  const Result<std::vector<std::string>> names = files.list(folder);
  if (!names) return names.error().message;
  const auto starts_with = [&](std::string_view start) {
    return std::ranges::any_of(*names, [&](const std::string& name) {
      return name.starts_with(start);
    });
  };
  if (starts_with("fold-"))
    return "it holds the folds of a run: name one of them, as " + (folder / "fold-0").string();
  if (starts_with("FENCE-"))
    return "its checkpoints are of a version that kept no record, or of a run that has ended no "
           "set-up";
  return "expected the folder of a job's checkpoints, spec.checkpoint.path";
}

Result<std::string> read_record(const fs::path& run, checkpoint::FileOps& files) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(run, ignored);
  const fs::path path = is_folder ? run / report::kRecordFile : run;
  Result<std::string> text = files.read(path, static_cast<int64_t>(api::kMaxDocumentBytes));
  if (text || text.error().kind != ErrorKind::NotFound) return text;
  if (!is_folder) return fail(ErrorKind::Data, run.string() + ": there is no such file or folder");
  return fail(
      ErrorKind::Data,
      run.string() + ": found no " + report::kRecordFile + "; " + why_none(run, files)
  );
}

}  // namespace

Status report_run(const ReportRequest& request, std::ostream& out) {
  checkpoint::PosixFileOps files;
  GNN_ASSIGN_OR_RETURN(const std::string text, read_record(request.run, files));
  const Result<report::RunRecord> record = report::parse_record(text);
  if (!record) return tl::unexpected(with_context(record.error(), request.run));
  const std::string page = report::page_of(*record);
  GNN_RETURN_IF_ERROR(
      checkpoint::replace_file(files, request.output, std::array<std::string_view, 1>{page})
  );
  out << request.output << ": " << page.size() << " bytes, " << record->epochs.size()
      << " epochs\n";
  return {};
}

}  // namespace gnn::app
