#include "controller/objects/secret.h"

#include <gtest/gtest.h>

namespace gnn::objects {
namespace {

TEST(Secret, IsWrittenOpaqueAndImmutable) {
  Secret secret;
  secret.metadata.name = "j-key";
  secret.metadata.namespace_ = "ns";
  secret.data = {{"data.key", "ab"}};
  EXPECT_EQ(encode(secret), Json::parse(R"({
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "j-key", "namespace": "ns"},
    "type": "Opaque",
    "immutable": true,
    "stringData": {"data.key": "ab"}
  })"));
}

}  // namespace
}  // namespace gnn::objects
