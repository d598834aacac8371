#include "worker/data/unreadable_mapping.h"

#include "common/contract.h"
#include "tests/support/temporary_folder.h"
#include "worker/data/mapped_file.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace gnn::data {
namespace {

void read_byte(const Mapping& mapping, size_t at) {
  [[maybe_unused]] const char byte = static_cast<const volatile char*>(mapping.address.get())[at];
}

TEST(UnreadableMapping, EndsTheProcessAndNamesTheFile) {
  const gnn::testing::TemporaryFolder folder;
  const std::string path = folder.write("array.npy", std::string(8192, 'x'));
  const auto read_cut_file = [&] {
    name_unreadable_mappings();
    const auto other = map_file(folder.write("other.npy", std::string(8192, 'x')));
    const auto mapping = map_file(path);
    std::filesystem::resize_file(path, 4096);
    read_byte(*mapping, 5000);
    std::_Exit(0);
  };
  EXPECT_EXIT(
      read_cut_file(),
      ::testing::ExitedWithCode(contract::kExitOther),
      "/array.npy: cannot be read at byte 5000: the file was cut off while it was in use"
  );
}

TEST(UnreadableMapping, LeavesOtherBusErrorsToTheKernel) {
  const auto send = [] {
    name_unreadable_mappings();
    std::raise(SIGBUS);
    std::_Exit(0);
  };
  EXPECT_EXIT(send(), ::testing::KilledBySignal(SIGBUS), "^$");
}

}  // namespace
}  // namespace gnn::data
