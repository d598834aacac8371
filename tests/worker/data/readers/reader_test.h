#pragma once

#include "common/progress_bar.h"
#include "tests/worker/data/files.h"
#include "worker/data/array.h"

#include <gtest/gtest.h>

namespace gnn::data::testing {

/// What the tests of all readers share: files to read, memory to read into and a silent progress.
class ReaderTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  MemoryStorage memory_;
  SilentProgressBar silent_;
};

}  // namespace gnn::data::testing
