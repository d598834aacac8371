#include "worker/app/prepare_data.h"

#include "tests/worker/data/files.h"
#include "worker/app/import_data.h"
#include "worker/data/native.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace gnn::app {
namespace {

using ::testing::HasSubstr;

class PrepareData : public ::testing::Test {
 protected:
  PrepareData() {
    data::testing::OgbFiles().write(folder_);
    job_.spec.dataset.path = folder_.path("out");
    api::DataImport& import = job_.spec.prepare.emplace().data_import.emplace();
    import.path = folder_.path("ring");
  }

  Status prepare() {
    said_.str("");
    return prepare_data(
        job_,
        {.out = said_, .progress = silent_, .dumpavail = &data_is_not_asked_for, .await_writer = {}}
    );
  }
  static Result<std::string> data_is_not_asked_for() {
    return fail(ErrorKind::Internal, "not in a pod");
  }

  data::testing::TemporaryFolder folder_;
  api::GnnJob job_;
  std::ostringstream said_;
  SilentProgressBar silent_;
};

TEST_F(PrepareData, MakesWhatTheImportCommandMakesWithTheSameOptions) {
  api::DataImport& import = *job_.spec.prepare->data_import;
  import.to_undirected = true;
  import.row_normalize = true;
  import.self_loops = api::SelfLoops::AddRemaining;
  import.feature_type = api::FeatureType::Float16;
  const Status made = prepare();
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(said_.str(), HasSubstr("out: 6 nodes, "));
  ImportRequest request;
  request.input = import.path;
  request.output.folder = *job_.spec.dataset.path;
  request.reading.to_undirected = true;
  request.reading.self_loops = data::SelfLoops::AddRemaining;
  request.reading.normalize_rows = true;
  request.reading.feature_dtype = data::DType::Float16;
  std::ostringstream imported;
  ASSERT_TRUE(import_data(
      request,
      {.out = imported, .progress = silent_, .dumpavail = &data_is_not_asked_for, .await_writer = {}
      }
  ));
  EXPECT_THAT(imported.str(), HasSubstr("already complete"));
  ASSERT_TRUE(prepare());
  EXPECT_THAT(said_.str(), HasSubstr("already complete"));

  job_.spec.prepare.reset();
  job_.spec.dataset.path = "/nowhere";
  EXPECT_TRUE(prepare()) << "nothing to prepare";
}

TEST_F(PrepareData, SaysWhatIsWrongSoThatTheJobIsNotRetried) {
  ASSERT_TRUE(prepare());
  job_.spec.prepare->data_import->coalesce = true;
  const Status others = prepare();
  ASSERT_FALSE(others);
  EXPECT_EQ(others.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(others.error().message, HasSubstr("spec.prepare.import.replace: true"));
  job_.spec.prepare->data_import->replace = true;
  EXPECT_TRUE(prepare());
  job_.spec.prepare->data_import->path = folder_.path("missing");
  const Status missing = prepare();
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::Data);
  EXPECT_THAT(missing.error().message, HasSubstr("missing"));
}

}  // namespace
}  // namespace gnn::app
