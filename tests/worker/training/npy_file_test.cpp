#include "worker/training/npy_file.h"

#include "tests/support/simulated_disk.h"
#include "worker/data/io/byte_source.h"
#include "worker/data/io/npy.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gnn::training {
namespace {

using gnn::testing::SimulatedDisk;

constexpr const char* kPath = "/job/ids.npy";

Status write_ids(const std::shared_ptr<SimulatedDisk>& disk, const std::array<int64_t, 3>& ids) {
  GNN_ASSIGN_OR_RETURN(NpyFile file, NpyFile::create(disk, kPath, data::DType::Int64, {3}));
  const auto bytes = std::as_bytes(std::span(ids));
  GNN_RETURN_IF_ERROR(file.append(bytes.first(8)));
  GNN_RETURN_IF_ERROR(file.append(bytes.subspan(8)));
  GNN_RETURN_IF_ERROR(file.finish());
  GNN_RETURN_IF_ERROR(file.publish());
  return disk->sync_directory("/job");
}

// Nothing if the file is not there or not whole.
std::vector<int64_t> read_ids(SimulatedDisk& disk) {
  const auto bytes = disk.read(kPath, 1 << 20);
  if (!bytes) return {};
  auto reader = data::NpyReader::open(data::from_memory(kPath, *bytes));
  if (!reader || reader->header().shape != std::vector<int64_t>{3}) return {};
  std::vector<int64_t> ids(3);
  if (!reader->read_integers(ids) || !reader->finish()) return {};
  return ids;
}

TEST(NpyFile, IsTheOldOneOrTheNewOneWhereverTheDiskFailsOrTheMachineStops) {
  const std::vector<int64_t> older{1, 2, 3};
  const std::vector<int64_t> newer{4, 5, 6};
  for (const auto fault : {SimulatedDisk::Fault::Error, SimulatedDisk::Fault::Crash}) {
    bool done = false;
    for (int64_t call = 0; !done; ++call) {
      const auto disk = std::make_shared<SimulatedDisk>();
      ASSERT_TRUE(write_ids(disk, {1, 2, 3}));
      disk->fail_at(call, fault);
      const Status written = write_ids(disk, {4, 5, 6});
      done = !disk->fired();
      EXPECT_EQ(written.has_value(), done);
      disk->disarm();
      if (fault == SimulatedDisk::Fault::Crash)
        disk->restart(SimulatedDisk::Survival::Some, static_cast<uint64_t>(call));
      const std::vector<int64_t> ids = read_ids(*disk);
      EXPECT_TRUE(ids == newer || (ids == older && !done)) << "call " << call;
      // Of a file that was given up, nothing is left.
      if (fault == SimulatedDisk::Fault::Error) {
        EXPECT_EQ(disk->paths().size(), 1U) << "call " << call;
      }
    }
  }
}

}  // namespace
}  // namespace gnn::training
