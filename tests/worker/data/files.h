#pragma once

#include "tests/support/temporary_folder.h"
#include "worker/data/array.h"
#include "worker/data/io/npy.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>
#include <zlib.h>

namespace gnn::data::testing {

using gnn::testing::TemporaryFolder;

/// `window_bits` as zlib wants them: 31 = gzip, -15 = raw deflate.
inline std::string deflate_bytes(std::string_view plain, int window_bits) {
  z_stream stream{};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, static_cast<uLong>(plain.size())) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}
inline std::string gzip(std::string_view plain) {
  return deflate_bytes(plain, 31);
}

/// A .npy file as NumPy writes it (version 1, header padded to 64 bytes).
inline std::string npy_bytes(
    const std::string& descr, const std::string& shape, std::string_view data, bool fortran = false
) {
  std::string dict = "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
                     ", 'shape': " + shape + ", }";
  while ((10 + dict.size() + 1) % 64 != 0) {
    dict += ' ';
  }
  dict += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(dict.size() & 0xFFU);
  bytes += static_cast<char>(dict.size() >> 8U);
  return bytes + dict + std::string(data);
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

struct ZipMember {
  std::string name;
  std::string content;
  bool deflated = false;
};

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

/// A zip file; with `zip64` all sizes and offsets stand in zip64 records, as in archives over 4
/// GiB.
inline std::string zip_bytes(const std::vector<ZipMember>& members, bool zip64 = false) {
  std::string out;
  std::string directory;
  for (const ZipMember& member : members) {
    const std::string packed =
        member.deflated ? deflate_bytes(member.content, -15) : member.content;
    const auto crc = static_cast<uint32_t>(
        crc32_z(0, reinterpret_cast<const Bytef*>(member.content.data()), member.content.size())
    );
    const auto method = static_cast<uint16_t>(member.deflated ? 8 : 0);
    const uint64_t offset = out.size();
    const auto size32 = [&](uint64_t value) {
      return zip64 ? 0xFFFFFFFFU : static_cast<uint32_t>(value);
    };
    const auto common = [&](std::string& to) {
      append<uint16_t>(to, 45);
      append<uint16_t>(to, 0);
      append<uint16_t>(to, method);
      append<uint32_t>(to, 0);
      append<uint32_t>(to, crc);
      append<uint32_t>(to, size32(packed.size()));
      append<uint32_t>(to, size32(member.content.size()));
      append<uint16_t>(to, static_cast<uint16_t>(member.name.size()));
    };
    append<uint32_t>(out, 0x04034b50);
    common(out);
    append<uint16_t>(out, 0);
    out += member.name + packed;
    append<uint32_t>(directory, 0x02014b50);
    append<uint16_t>(directory, 45);
    common(directory);
    append<uint16_t>(directory, zip64 ? 28 : 0);
    append<uint16_t>(directory, 0);
    append<uint16_t>(directory, 0);
    append<uint16_t>(directory, 0);
    append<uint32_t>(directory, 0);
    append<uint32_t>(directory, size32(offset));
    directory += member.name;
    if (zip64) {
      append<uint16_t>(directory, 1);
      append<uint16_t>(directory, 24);
      append<uint64_t>(directory, member.content.size());
      append<uint64_t>(directory, packed.size());
      append<uint64_t>(directory, offset);
    }
  }
  const uint64_t directory_offset = out.size();
  out += directory;
  if (zip64) {
    const uint64_t end64 = out.size();
    append<uint32_t>(out, 0x06064b50);
    append<uint64_t>(out, 44);
    append<uint16_t>(out, 45);
    append<uint16_t>(out, 45);
    append<uint32_t>(out, 0);
    append<uint32_t>(out, 0);
    append<uint64_t>(out, members.size());
    append<uint64_t>(out, members.size());
    append<uint64_t>(out, directory.size());
    append<uint64_t>(out, directory_offset);
    append<uint32_t>(out, 0x07064b50);
    append<uint32_t>(out, 0);
    append<uint64_t>(out, end64);
    append<uint32_t>(out, 1);
  }
  append<uint32_t>(out, 0x06054b50);
  append<uint16_t>(out, 0);
  append<uint16_t>(out, 0);
  append<uint16_t>(out, static_cast<uint16_t>(zip64 ? 0xFFFF : members.size()));
  append<uint16_t>(out, static_cast<uint16_t>(zip64 ? 0xFFFF : members.size()));
  append<uint32_t>(out, zip64 ? 0xFFFFFFFFU : static_cast<uint32_t>(directory.size()));
  append<uint32_t>(out, zip64 ? 0xFFFFFFFFU : static_cast<uint32_t>(directory_offset));
  append<uint16_t>(out, 0);
  return out;
}

/// A small data set in OGB's csv form: a ring of six nodes with two chords, two features, three
/// classes.
struct OgbFiles {
  std::string edges = "0,1\n1,2\n2,3\n3,4\n4,5\n5,0\n0,3\n1,4\n";
  std::string num_edges = "8\n";
  std::string num_nodes = "6\n";
  std::string features = "1,0\n0.5,0.5\n0,1\n1,1\n0,0\n2,6\n";
  std::string labels = "0\n1\n2\n0\n1\n2\n";
  std::string train = "0\n1\n2\n";
  std::string validation = "3\n";
  std::string test = "4\n5\n";

  void write(const TemporaryFolder& folder, const std::string& name = "ring") const {
    folder.write(name + "/raw/edge.csv.gz", gzip(edges));
    folder.write(name + "/raw/num-edge-list.csv.gz", gzip(num_edges));
    folder.write(name + "/raw/num-node-list.csv.gz", gzip(num_nodes));
    folder.write(name + "/raw/node-feat.csv.gz", gzip(features));
    folder.write(name + "/raw/node-label.csv.gz", gzip(labels));
    folder.write(name + "/split/random/train.csv.gz", gzip(train));
    folder.write(name + "/split/random/valid.csv.gz", gzip(validation));
    folder.write(name + "/split/random/test.csv.gz", gzip(test));
  }
};

/// The same ring in the form of PyG's Reddit: a symmetric adjacency matrix, one edge of it twice.
struct RedditFiles {
  using Members = std::map<std::string, std::string>;  ///< content by name

  Members data{
      {"feature",
       npy_bytes("<f4", "(6, 2)", bytes_of<float>({1, 0, .5F, .5F, 0, 1, 1, 1, 0, 0, 2, 6}))},
      {"label", npy_bytes("<i4", "(6,)", bytes_of<int32_t>({0, 1, 2, 0, 1, 2}))},
      {"node_types", npy_bytes("<i4", "(6,)", bytes_of<int32_t>({1, 1, 1, 2, 3, 3}))},
      {"node_ids", npy_bytes("|S2", "(6,)", "t1t2t3t4t5t6")},
  };
  Members graph{
      {"row",
       npy_bytes(
           "<i4", "(17,)", bytes_of<int32_t>({0, 1, 2, 3, 4, 5, 0, 1, 1, 2, 3, 4, 5, 0, 3, 4, 0})
       )},
      {"col",
       npy_bytes(
           "<i4", "(17,)", bytes_of<int32_t>({1, 2, 3, 4, 5, 0, 3, 4, 0, 1, 2, 3, 4, 5, 0, 1, 1})
       )},
      {"data", npy_bytes("<f8", "(17,)", bytes_of(std::vector<double>(17, 1.0)))},
      {"shape", npy_bytes("<i8", "(2,)", bytes_of<int64_t>({6, 6}))},
      {"format", npy_bytes("|S3", "()", "coo")},
  };

  /// `place`: the folder below the data set's own, "" or "/raw".
  void write(const TemporaryFolder& folder, const std::string& place = "") const {
    folder.write("reddit" + place + "/reddit_data.npz", archive(data));
    folder.write("reddit" + place + "/reddit_graph.npz", archive(graph));
  }

 private:
  static std::string archive(const Members& members) {
    std::vector<ZipMember> packed;
    for (const auto& [name, content] : members) {
      packed.push_back({name + ".npy", content, true});
    }
    return zip_bytes(packed);
  }
};

template <class T>
std::vector<T> to_vector(const Array& array) {
  const auto view = array.view<T>();
  return {view.begin(), view.end()};
}

}  // namespace gnn::data::testing
