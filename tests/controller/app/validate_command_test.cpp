#include "controller/app/validate_command.h"

#include "common/api/codec.h"
#include "tests/common/api/sample_job.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace gnn::app {
namespace {

using nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryFolder;

struct Ran {
  int exit_code = 0;
  std::string output;
};

Ran validate(
    const std::vector<std::string>& manifests, bool recursive = false, const std::string& input = ""
) {
  Options options;
  options.manifests = manifests;
  options.recursive = recursive;
  std::istringstream in(input);
  std::ostringstream out;
  const int exit_code = run_validate(options, in, out);
  return {.exit_code = exit_code, .output = out.str()};
}

std::string manifest(const std::string& name, int64_t nodes = 2) {
  json job = api::encode(api::sample_job());
  job["metadata"] = {{"name", name}};
  job["spec"]["workers"]["nodes"] = nodes;
  return job.dump() + "\n";
}

TEST(Validate, EndsWithZeroIfAllJobsAreValid) {
  const TemporaryFolder folder;
  const std::string file = folder.write("jobs.yaml", "kind: Secret\n---\n" + manifest("a"));
  const Ran ran = validate({file});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(
      ran.output,
      file + ":1: skipped: Secret, document 1\n" + file + ":2: valid: GNNJob a, document 2\n" +
          "1 GNNJob: 1 valid, 0 invalid; 0 warnings; 0 broken documents; 1 object of other kinds "
          "skipped\n"
  );
}

TEST(Validate, EndsWithOneIfADocumentIsInvalidAndJudgesTheOthers) {
  const TemporaryFolder folder;
  const std::string file =
      folder.write("jobs.yaml", manifest("a", 0) + "---\n[\n---\n" + manifest("b"));
  const Ran ran = validate({file});
  EXPECT_EQ(ran.exit_code, kExitInvalid);
  EXPECT_THAT(
      ran.output,
      HasSubstr(file + ":1: error: GNNJob a, document 1: spec.workers.nodes: must be at least 1\n")
  );
  EXPECT_THAT(ran.output, HasSubstr(file + ":2: error: document 2: not YAML: "));
  EXPECT_THAT(ran.output, HasSubstr(":4: valid: GNNJob b, document 3\n"));
  EXPECT_THAT(
      ran.output, HasSubstr("\n2 GNNJobs: 1 valid, 1 invalid; 0 warnings; 1 broken document; ")
  );
}

TEST(Validate, ReadsStandardInput) {
  EXPECT_EQ(validate({"-"}, false, manifest("a")).exit_code, 0);
  const Ran wrong = validate({"-"}, false, manifest("a", 0));
  EXPECT_EQ(wrong.exit_code, kExitInvalid);
  EXPECT_THAT(wrong.output, HasSubstr("standard input:1: error: GNNJob a"));
}

TEST(Validate, EndsWith66IfSomethingCannotBeRead) {
  const TemporaryFolder folder;
  const Ran missing =
      validate({folder.path("none.yaml"), folder.write("a.yaml", manifest("a", 0))});
  EXPECT_EQ(missing.exit_code, kExitNoInput);
  EXPECT_THAT(
      missing.output,
      HasSubstr("error: " + folder.path("none.yaml") + ": No such file or directory\n")
  );
  EXPECT_THAT(missing.output, HasSubstr("spec.workers.nodes")) << "the rest is judged";
  const std::string large = folder.write("large.yaml", "");
  std::filesystem::resize_file(large, uint64_t{1} << 30U);
  const Ran too_large = validate({large});
  EXPECT_EQ(too_large.exit_code, kExitNoInput);
  EXPECT_THAT(too_large.output, HasSubstr("large.yaml: larger than the limit of 2 MiB"));
}

TEST(Validate, EndsWith66WithoutAnyJob) {
  const TemporaryFolder folder;
  for (const std::string& text : {std::string(), std::string("kind: ConfigMap\n")}) {
    const Ran ran = validate({folder.write("a.yaml", text)});
    EXPECT_EQ(ran.exit_code, kExitNoInput);
    EXPECT_THAT(ran.output, EndsWith("error: no GNNJob found\n"));
  }
  EXPECT_EQ(validate({folder.path()}).exit_code, kExitNoInput);
}

TEST(Validate, TakesTheManifestsOfAFolder) {
  const TemporaryFolder folder;
  folder.write("b.yml", manifest("b"));
  folder.write("a.json", manifest("a"));
  folder.write("notes.txt", "[");
  folder.write("below/c.yaml", manifest("c"));
  std::filesystem::create_directory_symlink(folder.path(), folder.path("below/loop"));
  ASSERT_EQ(::mkfifo(folder.path("pipe.yaml").c_str(), 0600), 0);
  const Ran flat = validate({folder.path()});
  EXPECT_EQ(flat.exit_code, 0);
  EXPECT_THAT(flat.output, HasSubstr("2 GNNJobs: 2 valid"));
  EXPECT_LT(flat.output.find("a.json"), flat.output.find("b.yml"));
  EXPECT_THAT(validate({folder.path()}, true).output, HasSubstr("3 GNNJobs: 3 valid"));
}

TEST(Validate, WarnsOfTwoJobsOfOneName) {
  const TemporaryFolder folder;
  const std::string first = folder.write("a.yaml", manifest("a"));
  const Ran ran =
      validate({first, folder.write("b.yaml", manifest("b") + "---\n" + manifest("a"))});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.output, HasSubstr("b.yaml:2: warning: GNNJob a, document 2: metadata.name: "));
  EXPECT_THAT(ran.output, HasSubstr("1 warning;"));
}

TEST(Validate, LetsNoNameOfAFileControlATerminal) {
  const TemporaryFolder folder;
  folder.write("\x1B[2J.yaml", manifest("a", 0));
  const Ran ran = validate({folder.path(), "\x1B[1m"});
  EXPECT_EQ(ran.exit_code, kExitNoInput);
  EXPECT_THAT(ran.output, Not(HasSubstr("\x1B")));
}

}  // namespace
}  // namespace gnn::app
