#include "worker/servers/hello.h"

#include "worker/shards/messages.h"

#include <limits>
#include <utility>

namespace gnn::servers {
namespace {

Result<int64_t> number(shards::MessageReader& reader) {
  GNN_ASSIGN_OR_RETURN(const uint64_t value, reader.u64());
  if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return static_cast<int64_t>(value);
  return fail(ErrorKind::Data, "a server's hello has a number that is negative");
}

}  // namespace

std::vector<std::byte> encode(const Hello& hello) {
  shards::MessageWriter writer;
  writer.add(hello.version);
  writer.add(hello.server);
  writer.add(hello.restart);
  writer.add(hello.partitions);
  writer.add(hello.part);
  writer.add_bytes(std::as_bytes(std::span(hello.description)));
  return std::move(writer).take();
}

Result<Hello> decode_hello(std::span<const std::byte> bytes) {
  shards::MessageReader reader(bytes);
  Hello hello;
  GNN_ASSIGN_OR_RETURN(hello.version, number(reader));
  // Of another version nothing else is known.
  if (hello.version != kServersVersion) {
    return fail(
        ErrorKind::Configuration,
        "it answers by version " + std::to_string(hello.version) + " and this process asks by " +
            std::to_string(kServersVersion) + ": all pods of the job must run the same image"
    );
  }
  GNN_ASSIGN_OR_RETURN(hello.server, number(reader));
  GNN_ASSIGN_OR_RETURN(hello.restart, number(reader));
  GNN_ASSIGN_OR_RETURN(hello.partitions, number(reader));
  GNN_ASSIGN_OR_RETURN(hello.part, number(reader));
  const int64_t size = reader.bytes_left();
  if (size > kMostDescriptionBytes)
    return fail(ErrorKind::Data, "a server's hello is longer than 1 MiB");
  GNN_ASSIGN_OR_RETURN(const auto text, reader.elements(static_cast<uint64_t>(size), 1));
  hello.description.assign(reinterpret_cast<const char*>(text.data()), text.size());
  return hello;
}

}  // namespace gnn::servers
