#include "worker/data/ogb_writer.h"

#include "tests/worker/data/files.h"
#include "worker/data/digest.h"
#include "worker/data/generate.h"
#include "worker/data/readers/ogb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <sys/resource.h>

namespace gnn::data {
namespace {

using ::testing::ExitedWithCode;
using testing::TemporaryFolder;

DatasetArrays generated(Shape shape, DType dtype, MemoryStorage& memory) {
  SilentProgressBar silent;
  const auto dataset = generate(
      {.shape = shape, .scale = shape == Shape::Papers100M ? 1e-4 : 0.02, .feature_dtype = dtype},
      memory,
      silent
  );
  return dataset.value();
}

// Ends the process, whose files may have a megabyte, with 0 if write_ogb() fails as it should.
[[noreturn]] void write_with_little_room(const std::string& path) {
  MemoryStorage memory;
  SilentProgressBar silent;
  const DatasetArrays dataset = generated(Shape::Papers100M, DType::Float32, memory);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  limit.rlim_cur = rlim_t{1} << 20U;
  limit.rlim_max = limit.rlim_cur;
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) std::_Exit(2);
  const Status status = write_ogb(dataset, path, silent);
  if (status) std::_Exit(3);
  std::cerr << status.error().message << "\n";
  std::_Exit(status.error().kind == ErrorKind::Io ? 0 : 4);
}

TEST(OgbWriter, WritesWhatIsReadBackBitForBitOrNamesTheFileThatTheDiskHasNoRoomFor) {
  // One directed, with nodes without a label; one undirected, all of whose nodes have one.
  for (const Shape shape : {Shape::Papers100M, Shape::Arxiv}) {
    for (const DType dtype : {DType::Float32, DType::Float16}) {
      const TemporaryFolder folder;
      MemoryStorage memory;
      SilentProgressBar silent;
      const DatasetArrays wanted = generated(shape, dtype, memory);
      const Status written = write_ogb(wanted, folder.path("set"), silent);
      ASSERT_TRUE(written) << written.error().message;
      ReadOptions options;
      options.feature_dtype = dtype;
      const auto found = read_ogb(folder.path("set"), options, memory, silent);
      ASSERT_TRUE(found) << found.error().message;
      EXPECT_EQ(digest_of(*found), digest_of(wanted));
    }
  }

  const TemporaryFolder folder;
  EXPECT_EXIT(
      write_with_little_room(folder.path("set")),
      ExitedWithCode(0),
      "set/raw/data.npz: can't write: File too large"
  );
}

}  // namespace
}  // namespace gnn::data
