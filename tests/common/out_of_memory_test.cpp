#include "common/out_of_memory.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace gnn {
namespace {

TEST(OutOfMemory, IsKnownByItsTypeOrItsWords) {
  EXPECT_TRUE(is_out_of_memory(std::bad_alloc()));
  EXPECT_TRUE(is_out_of_memory(std::bad_array_new_length()));
  EXPECT_TRUE(is_out_of_memory(std::runtime_error(
      "[enforce fail at alloc_cpu.cpp:83] data. DefaultCPUAllocator: can't allocate memory: you "
      "tried to allocate 4000000000000 bytes."
  )));
  EXPECT_TRUE(is_out_of_memory(
      std::runtime_error("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1 GiB free.")
  ));
  EXPECT_FALSE(is_out_of_memory(std::runtime_error("index 7 is out of bounds")));
}

}  // namespace
}  // namespace gnn
