#include "worker/data/native.h"

#include "worker/data/digest.h"
#include "worker/data/io/npy.h"
#include "worker/data/manifest.h"

#include <algorithm>
#include <span>
#include <utility>

namespace gnn::data {
namespace {

struct MappedArray {
  Array array;
  Mapping file;
};

// Maps a file and compares its header with the manifest.
Result<MappedArray> map_checked(const std::string& directory, const ManifestArray& entry) {
  const std::string path = directory + "/" + entry.file;
  GNN_ASSIGN_OR_RETURN(auto source, open_file(path));
  if (source->file_bytes_total() != entry.file_bytes) {
    return fail(
        ErrorKind::Data,
        path + ": expected " + std::to_string(entry.file_bytes) +
            " bytes as the manifest says, found " + std::to_string(source->file_bytes_total())
    );
  }
  GNN_ASSIGN_OR_RETURN(const NpyHeader header, read_npy_header(*source));
  const auto describe = [](DType dtype, const std::vector<int64_t>& shape) {
    return std::string(dtype_name(dtype)) + " " + shape_text(shape);
  };
  if (header.dtype != entry.dtype || header.shape != entry.shape || header.fortran_order) {
    return fail(
        ErrorKind::Data,
        path + ": expected " + describe(entry.dtype, entry.shape) +
            " as the manifest says, found " + describe(header.dtype, header.shape) +
            (header.fortran_order ? " in Fortran order" : "")
    );
  }
  if (header.data_offset + header.num_elements() * dtype_size(header.dtype) != entry.file_bytes ||
      header.data_offset % dtype_size(header.dtype) != 0) {
    return fail(
        ErrorKind::Data,
        path + ": its elements don't fill the file from offset " +
            std::to_string(header.data_offset)
    );
  }
  GNN_ASSIGN_OR_RETURN(const Mapping mapping, map_file(path));
  if (mapping.bytes != entry.file_bytes) {
    return fail(ErrorKind::Data, path + ": changed while it was opened");
  }
  Array array(
      entry.name,
      entry.dtype,
      entry.shape,
      mapping.address,
      static_cast<std::byte*>(mapping.address.get()) + header.data_offset
  );
  return MappedArray{.array = std::move(array), .file = mapping};
}

// What the elements of an array must be.
enum class Elements { Any, Ids, Doubles };

struct Slot {
  Array* array;
  size_t dims;
  Elements elements;
};

std::vector<Slot> slots_of(DatasetArrays& dataset) {
  std::vector<Slot> slots;
  for (NodeTable& table : dataset.node_tables) {
    slots.push_back({&table.features, 2, Elements::Any});
    for (NamedFeatures& more : table.more_features) slots.push_back({&more.rows, 2, Elements::Any});
    slots.push_back({&table.labels, 1, Elements::Ids});
  }
  for (EdgeTable& table : dataset.edge_tables) {
    slots.push_back({&table.indptr, 1, Elements::Ids});
    slots.push_back({&table.indices, 1, Elements::Any});
    slots.push_back({&table.edge_ids, 1, Elements::Ids});
    slots.push_back({&table.features, 2, Elements::Any});
  }
  for (Array* ids :
       {&dataset.train,
        &dataset.validation,
        &dataset.test,
        &dataset.graph_offsets,
        &dataset.graph_labels}) {
    slots.push_back({ids, 1, Elements::Ids});
  }
  if (dataset.links) slots.push_back({&dataset.links->pairs, 2, Elements::Ids});
  if (dataset.partitions) {
    for (Array& ids : dataset.partitions->original_ids) {
      slots.push_back({&ids, 1, Elements::Ids});
    }
    for (std::vector<HotRows>& parts : dataset.partitions->hot) {
      for (HotRows& hot : parts) {
        slots.push_back({&hot.ids, 1, Elements::Ids});
        slots.push_back({&hot.hotness, 1, Elements::Doubles});
      }
    }
    if (auto& split = dataset.partitions->link_split) {
      slots.push_back({&split->order, 1, Elements::Ids});
      slots.push_back({&split->validation_negatives, 2, Elements::Ids});
      slots.push_back({&split->test_negatives, 2, Elements::Ids});
    }
  }
  return slots;
}

bool is_right(Elements elements, DType dtype) {
  switch (elements) {
    case Elements::Any:
      return true;
    case Elements::Ids:
      return dtype == DType::Int64;
    case Elements::Doubles:
      return dtype == DType::Float64;
  }
  return false;
}

std::string expected_text(Elements elements) {
  switch (elements) {
    case Elements::Any:
      return "";
    case Elements::Ids:
      return " of int64";
    case Elements::Doubles:
      return " of float64";
  }
  return "";
}

// The manifest's entry for an array of the data set, if its type and shape are acceptable there.
Result<const ManifestArray*> find_entry(const std::vector<ManifestArray>& files, const Slot& slot) {
  const std::string& name = slot.array->name();
  const auto entry =
      std::find_if(files.begin(), files.end(), [&](const auto& file) { return file.name == name; });
  if (entry == files.end()) {
    return fail(ErrorKind::Data, "no array named '" + name + "' in the list of arrays");
  }
  if (entry->shape.size() != slot.dims || !is_right(slot.elements, entry->dtype)) {
    return fail(
        ErrorKind::Data,
        "array '" + name + "': expected " + std::to_string(slot.dims) + " dimensions" +
            expected_text(slot.elements) + ", found " + std::string(dtype_name(entry->dtype)) +
            " " + shape_text(entry->shape)
    );
  }
  return &*entry;
}

}  // namespace

Result<NativeDataset> open_native(const std::string& directory) {
  const std::string manifest_path = directory + "/" + kManifestFile;
  GNN_ASSIGN_OR_RETURN(Manifest manifest, read_manifest(manifest_path));
  std::string versions = manifest.digest + "\n";
  std::vector<Mapping> mappings;
  for (const Slot& slot : slots_of(manifest.dataset)) {
    if (!slot.array->defined()) {
      continue;
    }
    Result<const ManifestArray*> entry = find_entry(manifest.files, slot);
    if (!entry) return tl::unexpected(with_context(std::move(entry).error(), manifest_path));
    GNN_ASSIGN_OR_RETURN(MappedArray mapped, map_checked(directory, **entry));
    *slot.array = std::move(mapped.array);
    versions += (*entry)->file + " " + mapped.file.version + "\n";
    mappings.push_back(std::move(mapped.file));
    manifest.dataset.read_from[(*entry)->name] = directory + "/" + (*entry)->file;
  }
  if (manifest.dataset.partitions) {
    GNN_RETURN_IF_ERROR(check_partitions_form(manifest.dataset, manifest_path));
  }
  return NativeDataset{
      .arrays = std::move(manifest.dataset),
      .files = std::move(manifest.files),
      .key = std::move(manifest.key),
      .manifest_digest = std::move(manifest.digest),
      .version = digest_of(DigestKind::Sha256, std::as_bytes(std::span(versions))),
      .mappings = std::move(mappings)
  };
}

// Not the manifest's own digest, which also covers where the set was imported from.
std::string digest_of(const NativeDataset& native) {
  const auto& partitions = native.arrays.partitions;
  if (partitions && partitions->only) {
    return partitions->whole_digest;
  }
  std::string text = node_counts(native.arrays) + partitions_text(native.arrays);
  for (const ManifestArray& file : native.files) {
    text += file.name + " " + std::string(dtype_name(file.dtype)) + " " + shape_text(file.shape) +
            " " + file.digest + "\n";
  }
  return digest_of(DigestKind::Xxh64, std::as_bytes(std::span(text)));
}

Status verify_digests(
    const std::string& directory, const NativeDataset& dataset, ProgressBar& progress
) {
  int64_t total = 0;
  for (const ManifestArray& file : dataset.files) {
    total += file.file_bytes;
  }
  int64_t done = 0;
  progress.begin("verifying", total, "bytes");
  for (const ManifestArray& file : dataset.files) {
    const std::string path = directory + "/" + file.file;
    GNN_ASSIGN_OR_RETURN(const FileDigest found, digest_file(DigestKind::Xxh64, path));
    if (found.digest != file.digest) {
      return fail(
          ErrorKind::Data,
          path + ": damaged: its digest is " + found.digest + ", the manifest says " + file.digest
      );
    }
    done += file.file_bytes;
    progress.advance_to(done);
  }
  progress.end();
  return {};
}

}  // namespace gnn::data
