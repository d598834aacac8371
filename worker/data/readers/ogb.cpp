#include "worker/data/readers/ogb.h"

#include "worker/data/io/npz.h"
#include "worker/data/items.h"
#include "worker/data/readers/npy_arrays.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

namespace gnn::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kProgressRows = 4096;

tl::unexpected<Error> bad(const std::string& where, const std::string& what) {
  return fail(ErrorKind::Data, where + ": " + what);
}

Result<std::string> need_csv(const std::string& folder, const std::string& stem) {
  std::string path = find_csv(folder, stem);
  if (path.empty()) {
    return fail(ErrorKind::NotFound, folder + ": expected " + stem + ".csv.gz or " + stem + ".csv");
  }
  return path;
}

// The one number of num-node-list or num-edge-list.
Result<int64_t> read_count(const std::string& raw, const std::string& stem) {
  GNN_ASSIGN_OR_RETURN(const std::string path, need_csv(raw, stem));
  GNN_ASSIGN_OR_RETURN(NumberReader reader, NumberReader::open(path));
  int64_t count = 0;
  GNN_ASSIGN_OR_RETURN(const bool found, reader.next_integers({&count, 1}));
  if (!found || count < 0) {
    return bad(path + ": line 1", "expected a number that is not negative");
  }
  int64_t second = 0;
  GNN_ASSIGN_OR_RETURN(const bool more, reader.next_integers({&second, 1}));
  if (more) {
    return bad(path + ": line 2", "more than one graph; node-property data sets have one");
  }
  return count;
}

Result<CscArrays> read_csv_edges(
    const std::string& raw,
    int64_t num_nodes,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(const int64_t num_edges, read_count(raw, "num-edge-list"));
  GNN_ASSIGN_OR_RETURN(const std::string path, need_csv(raw, "edge"));
  GNN_ASSIGN_OR_RETURN(NumberReader reader, NumberReader::open(path));
  // A line has at least 4 bytes, and gzip packs at most 1032 : 1. A larger count is false: refuse it
  // before reserving memory.
  if (num_edges / 300 > reader.source().file_bytes_total()) {
    return bad(path, "too short for the " + std::to_string(num_edges) + " edges of num-edge-list");
  }
  GNN_ASSIGN_OR_RETURN(EdgeBuffer buffer, EdgeBuffer::create(storage, num_edges, num_nodes));
  progress.begin("reading edges", reader.source().file_bytes_total(), "bytes");
  int64_t edge = 0;
  std::array<int64_t, 2> ends{};
  while (true) {
    GNN_ASSIGN_OR_RETURN(const bool more, reader.next_integers(ends));
    if (!more) {
      break;
    }
    if (edge == num_edges) {
      return bad(
          reader.where(), "more edges than the " + std::to_string(num_edges) + " of num-edge-list"
      );
    }
    buffer.set(edge++, ends[0], ends[1]);
    if (edge % kProgressRows == 0) {
      progress.advance_to(reader.source().file_bytes_read(), {});
    }
  }
  progress.advance_to(reader.source().file_bytes_read(), {});
  progress.end();
  if (edge != num_edges) {
    return bad(
        path,
        "ends after " + std::to_string(edge) + " edges, num-edge-list says " +
            std::to_string(num_edges)
    );
  }
  return build_csc(
      buffer.edges(edge, path + ": line ", 1),
      csc_options(num_nodes, options),
      storage,
      kEdgesName,
      progress
  );
}

Result<Array> read_csv_features(
    const std::string& path,
    int64_t num_nodes,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(NumberReader first, NumberReader::open(path));
  std::vector<float> values;
  GNN_ASSIGN_OR_RETURN(const bool any, first.next_floats(values));
  if (!any || num_nodes / 300 > first.source().file_bytes_total()) {
    return bad(path, "too short for " + std::to_string(num_nodes) + " rows");
  }
  const auto read = [&](const FeatureRows::Visit& visit) -> Status {
    GNN_ASSIGN_OR_RETURN(NumberReader reader, NumberReader::open(path));
    progress.begin("reading features", reader.source().file_bytes_total(), "bytes");
    for (int64_t row = 0; row < num_nodes; ++row) {
      GNN_ASSIGN_OR_RETURN(const bool more, reader.next_floats(std::span(values)));
      if (!more) {
        return bad(
            path,
            "ends after " + std::to_string(row) + " rows, expected " + std::to_string(num_nodes)
        );
      }
      GNN_RETURN_IF_ERROR(visit(row, values));
      if (row % kProgressRows == 0) {
        progress.advance_to(reader.source().file_bytes_read(), {});
      }
    }
    std::vector<float> rest;
    GNN_ASSIGN_OR_RETURN(const bool more, reader.next_floats(rest));
    if (more) {
      return bad(reader.where(), "more rows than the " + std::to_string(num_nodes) + " nodes");
    }
    progress.advance_to(reader.source().file_bytes_read(), {});
    progress.end();
    return {};
  };
  return store_features(
      {.name = kFeaturesName,
       .num_rows = num_nodes,
       .width = static_cast<int64_t>(values.size()),
       .read = read},
      options,
      storage
  );
}

// "nan" in the spellings of NumPy and C, which writes the sign.
bool is_nan(std::string_view text) {
  if (text.starts_with('-')) {
    text.remove_prefix(1);
  }
  return text == "nan" || text == "NaN";
}

Result<Array> read_csv_labels(const std::string& path, int64_t num_nodes, ArrayStorage& storage) {
  GNN_ASSIGN_OR_RETURN(auto source, open_by_suffix(path));
  if (num_nodes / 1100 > source->file_bytes_total()) {
    return bad(path, "too short for the labels of " + std::to_string(num_nodes) + " nodes");
  }
  GNN_ASSIGN_OR_RETURN(Array labels, storage.create(kLabelsName, DType::Int64, {num_nodes}));
  LineReader lines(std::move(source));
  const std::span<int64_t> out = labels.mutable_view<int64_t>();
  int64_t row = 0;
  while (true) {
    GNN_ASSIGN_OR_RETURN(const LineReader::Line line, lines.next());
    if (line.at_end) {
      break;
    }
    if (row == num_nodes) {
      if (line.text.empty()) {
        continue;
      }
      return bad(lines.where(), "more labels than the " + std::to_string(num_nodes) + " nodes");
    }
    // "nan" or nothing: a node without a label, as in ogbn-papers100M.
    int64_t value = -1;
    if (!line.text.empty() && !is_nan(line.text)) {
      NumberReader number(LineReader(from_memory(path, std::string(line.text))), ',');
      if (!number.next_integers({&value, 1}) || value < -1) {
        return bad(
            lines.where(),
            "expected one class, -1 or nan, found '" + std::string(line.text.substr(0, 40)) + "'"
        );
      }
    }
    out[static_cast<size_t>(row++)] = value;
  }
  if (row != num_nodes) {
    return bad(
        path, "ends after " + std::to_string(row) + " labels, expected " + std::to_string(num_nodes)
    );
  }
  return storage.commit(std::move(labels));
}

// A member with one element: num_nodes_list, num_edges_list.
Result<int64_t> read_count(const NpzArchive& archive, const std::string& name) {
  GNN_ASSIGN_OR_RETURN(NpyReader reader, archive.open_array(name));
  if (reader.header().num_elements() != 1) {
    return bad(
        reader.name(), "expected one graph, found " + std::to_string(reader.header().num_elements())
    );
  }
  int64_t count = 0;
  GNN_RETURN_IF_ERROR(reader.read_integers({&count, 1}));
  if (count < 0) {
    return bad(reader.name(), "expected a count, found " + std::to_string(count));
  }
  return count;
}

Result<Array> read_npz_labels(const std::string& path, int64_t num_nodes, ArrayStorage& storage) {
  GNN_ASSIGN_OR_RETURN(const NpzArchive archive, NpzArchive::open(path));
  GNN_ASSIGN_OR_RETURN(NpyReader reader, archive.open_array("node_label"));
  return read_npy_labels(std::move(reader), num_nodes, storage);
}

// The split's folder: the requested one, or the only one; "" if none is required and there is not
// exactly one.
Result<std::string> find_split(
    const std::string& folder, const std::string& wanted, bool required
) {
  std::error_code error;
  const std::string splits = folder + "/split";
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(splits, error)) {
    if (entry.is_directory(error)) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  if (names.empty() && wanted.empty() && !required) {
    return "";
  }
  if (names.empty()) {
    return fail(ErrorKind::NotFound, splits + ": expected a folder with the split, found none");
  }
  std::string listed;
  for (const std::string& name : names) {
    listed += (listed.empty() ? "" : ", ") + name;
  }
  if (wanted.empty() && names.size() != 1) {
    if (!required) {
      return "";
    }
    return fail(ErrorKind::Configuration, splits + ": name one of the splits: " + listed);
  }
  if (!wanted.empty() && std::find(names.begin(), names.end(), wanted) == names.end()) {
    return fail(
        ErrorKind::NotFound, splits + ": no split '" + wanted + "', expected one of " + listed
    );
  }
  return splits + "/" + (wanted.empty() ? names.front() : wanted);
}

// The ids of a part of the split, which are added to `split`. Nothing says how many there are, so the
// file is read twice.
Result<Array> read_part(
    const std::string& path, const char* part, SplitIds& split, ArrayStorage& storage
) {
  GNN_ASSIGN_OR_RETURN(NumberReader reader, NumberReader::open(path));
  split.begin(part, path);
  int64_t count = 0;
  int64_t id = 0;
  while (true) {
    GNN_ASSIGN_OR_RETURN(const bool more, reader.next_integers({&id, 1}));
    if (!more) {
      break;
    }
    if (const std::string wrong = split.add(id); !wrong.empty()) {
      return bad(reader.where(), wrong);
    }
    ++count;
  }
  return read_integer_lines(path, count, storage);
}

// Without a folder: no split.
Result<SplitArrays> read_split_folder(
    const std::string& folder, int64_t num_nodes, ArrayStorage& storage
) {
  SplitArrays arrays;
  if (folder.empty()) {
    return arrays;
  }
  struct Part {
    const char* stem;
    const char* name;
    const char* array_name;
    Array& array;
  };
  SplitIds split(num_nodes);
  for (const Part& part :
       {Part{"train", "train", kTrainName, arrays.train},
        Part{"valid", "validation", kValidationName, arrays.validation},
        Part{"test", "test", kTestName, arrays.test}}) {
    GNN_ASSIGN_OR_RETURN(const std::string path, need_csv(folder, part.stem));
    GNN_ASSIGN_OR_RETURN(const Array ids, read_part(path, part.name, split, storage));
    GNN_ASSIGN_OR_RETURN(part.array, store_ids(storage, part.array_name, ids.view<int64_t>()));
    arrays.read_from[part.array_name] = path;
  }
  GNN_RETURN_IF_ERROR(split.finish());
  return arrays;
}

Result<Array> read_label_file(const std::string& file, int64_t num_nodes, ArrayStorage& storage) {
  GNN_ASSIGN_OR_RETURN(Array done, storage.find(kLabelsName));
  if (done.defined()) {
    return done;
  }
  return file.ends_with(".npz") ? read_npz_labels(file, num_nodes, storage)
                                : read_csv_labels(file, num_nodes, storage);
}

// The parts of a raw folder, in either form.
struct RawFolder {
  std::string path;
  std::optional<NpzArchive> archive;

  static Result<RawFolder> open(const std::string& folder) {
    RawFolder raw{.path = folder + "/raw", .archive = std::nullopt};
    std::error_code error;
    if (!fs::is_directory(raw.path, error)) {
      return fail(
          ErrorKind::NotFound, folder + ": expected the folder raw of an OGB data set in it"
      );
    }
    if (fs::is_regular_file(raw.path + "/data.npz", error)) {
      GNN_ASSIGN_OR_RETURN(raw.archive, NpzArchive::open(raw.path + "/data.npz"));
    }
    return raw;
  }

  [[nodiscard]] Result<int64_t> num_nodes() const {
    GNN_ASSIGN_OR_RETURN(
        const int64_t count,
        archive ? read_count(*archive, "num_nodes_list") : read_count(path, "num-node-list")
    );
    if (count < 1) {
      return bad(path, "expected a graph with at least one node");
    }
    return count;
  }

  Result<CscArrays> edges(
      int64_t nodes, const ReadOptions& options, ArrayStorage& storage, ProgressBar& progress
  ) const {
    GNN_ASSIGN_OR_RETURN(CscArrays done, find_csc(storage, kEdgesName, options.link.has_value()));
    if (done.indptr.defined()) {
      return done;
    }
    if (!archive) {
      return read_csv_edges(path, nodes, options, storage, progress);
    }
    GNN_ASSIGN_OR_RETURN(NpyReader reader, archive->open_array("edge_index"));
    return read_npy_edges(std::move(reader), nodes, options, storage, progress);
  }

  // Undefined when the data set has none.
  Result<Array> features(
      int64_t nodes, const ReadOptions& options, ArrayStorage& storage, ProgressBar& progress
  ) const {
    GNN_ASSIGN_OR_RETURN(Array done, storage.find(kFeaturesName));
    if (done.defined()) {
      return done;
    }
    if (archive && archive->contains("node_feat")) {
      const auto open = [this] { return archive->open_array("node_feat"); };
      return read_npy_features(open, kFeaturesName, nodes, options, storage, progress);
    }
    const std::string csv = find_csv(path, "node-feat");
    return csv.empty() ? Result<Array>(Array())
                       : read_csv_features(csv, nodes, options, storage, progress);
  }

  [[nodiscard]] Result<std::string> label_file() const {
    std::error_code error;
    std::string npz = path + "/node-label.npz";
    if (fs::is_regular_file(npz, error)) {
      return npz;
    }
    return need_csv(path, "node-label");
  }
};

}  // namespace

Result<DatasetArrays> read_ogb(
    const std::string& folder,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(const RawFolder raw, RawFolder::open(folder));
  // Small parts first, so that their errors show before minutes of reading.
  GNN_ASSIGN_OR_RETURN(
      const std::string split_folder, find_split(folder, options.split, options.split_required)
  );
  GNN_ASSIGN_OR_RETURN(const int64_t nodes, raw.num_nodes());
  GNN_ASSIGN_OR_RETURN(const std::string label_file, raw.label_file());
  GNN_ASSIGN_OR_RETURN(Array labels, read_label_file(label_file, nodes, storage));
  GNN_ASSIGN_OR_RETURN(
      const int64_t num_classes,
      count_classes(labels.view<int64_t>(), options, label_file + ": label of node ")
  );
  GNN_ASSIGN_OR_RETURN(SplitArrays split, read_split_folder(split_folder, nodes, storage));
  GNN_ASSIGN_OR_RETURN(const CscArrays edges, raw.edges(nodes, options, storage, progress));
  GNN_ASSIGN_OR_RETURN(Array features, raw.features(nodes, options, storage, progress));
  DatasetArrays dataset = homogeneous(
      fs::path(folder + "/").lexically_normal().parent_path().filename().string(),
      nodes,
      std::move(features),
      std::move(labels),
      edges
  );
  dataset.num_classes = num_classes;
  take_split(dataset, std::move(split));
  dataset.read_from[kLabelsName] = label_file;
  dataset.origin.source = "OGB";
  dataset.origin.path = folder;
  dataset.origin.options = describe(options);
  dataset.origin.facts.emplace_back("split", fs::path(split_folder).filename().string());
  return dataset;
}

}  // namespace gnn::data
