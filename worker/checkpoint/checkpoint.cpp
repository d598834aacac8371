#include "worker/checkpoint/checkpoint.h"

#include "worker/checkpoint/checkpoint_format.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/checkpoint/finite.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <utility>

namespace gnn::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kMaxFenceBytes = int64_t{16} << 20;
constexpr int64_t kMaxManifestBytes = int64_t{256} << 20;
// A fence may be written between a writer's check and its rename, once: then the checkpoint before
// is the one that counts.
constexpr int64_t kAlwaysKept = 2;

template <class... Numbers>
std::string format(const char* pattern, Numbers... numbers) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), pattern, static_cast<long long>(numbers)...);
  return text.data();
}

std::string name_of(const FolderAttempt& attempt) {
  return format("a%06lld-r%04lld", attempt.attempt, attempt.round);
}

std::string fence_name(const FolderAttempt& attempt) {
  return "FENCE-" + name_of(attempt);
}

std::string manifest_name(int64_t step) {
  return format("step-%012lld.manifest", step);
}

// A name counts only if what was read from it prints as the same name: one spelling per number.
std::optional<FolderAttempt> parse_attempt(const std::string& name) {
  long long attempt = 0;
  long long round = 0;
  if (std::sscanf(name.c_str(), "a%lld-r%lld", &attempt, &round) != 2) return std::nullopt;
  const FolderAttempt parsed{.attempt = attempt, .round = round};
  if (attempt < 0 || round < 0 || name_of(parsed) != name) return std::nullopt;
  return parsed;
}

std::optional<FolderAttempt> parse_fence(const std::string& name) {
  if (!name.starts_with("FENCE-")) return std::nullopt;
  return parse_attempt(name.substr(6));
}

bool is_manifest(const std::string& name) {
  long long step = 0;
  return std::sscanf(name.c_str(), "step-%lld.manifest", &step) == 1 && step >= 0 &&
         manifest_name(step) == name;
}

bool is_data(const std::string& name) {
  return name.starts_with("data-") && name.ends_with(".bin");
}

// The content of a FENCE file. It is written twice: first to stop older writers, then with the
// checkpoints that are inherited.
struct Fence {
  bool complete = false;
  std::vector<std::string> jobs;    // uids of those that used the folder; the last wrote this
  int64_t first_attempt = 0;        // the folder's number of the last job's attempt 0
  std::vector<fs::path> inherited;  // relative to the job's directory
};

struct NamedFence {
  FolderAttempt of;
  Fence fence;
};

std::string to_text(const Fence& fence) {
  Json list = Json::array();
  for (const fs::path& path : fence.inherited) list.push_back(path.generic_string());
  return seal(Json{
      {"complete", fence.complete},
      {"jobs", fence.jobs},
      {"firstAttempt", fence.first_attempt},
      {"inherited", std::move(list)},
  }
                  .dump(1));
}

Result<Fence> parse_fence_text(std::string_view text) {
  auto plain = unseal(text);
  if (!plain) return tl::make_unexpected(plain.error());
  try {
    const Json json = Json::parse(*plain);
    Fence fence{
        .complete = json.at("complete").get<bool>(),
        .jobs = json.at("jobs").get<std::vector<std::string>>(),
        .first_attempt = json.at("firstAttempt").get<int64_t>(),
        .inherited = {},
    };
    if (fence.jobs.empty()) return fail(ErrorKind::Data, "expected the uid of a job, found none");
    for (const Json& entry : json.at("inherited")) {
      const fs::path path = entry.get<std::string>();
      if (!parse_attempt(path.parent_path().string()) || !is_manifest(path.filename().string())) {
        return fail(
            ErrorKind::Data, "expected <attempt>/<manifest> in its list, found " + entry.dump()
        );
      }
      fence.inherited.push_back(path);
    }
    return fence;
  } catch (const Json::exception& error) {
    return fail(ErrorKind::Data, error.what());
  }
}

Result<Fence> read_fence(const fs::path& path, FileOps& files) {
  auto text = files.read(path, kMaxFenceBytes);
  if (!text) return tl::make_unexpected(text.error());
  auto fence = parse_fence_text(*text);
  if (!fence) {
    return tl::make_unexpected(with_context(
        fence.error(),
        path.string() + " (remove this file to inherit every checkpoint of the folder)"
    ));
  }
  return fence;
}

Result<std::vector<std::string>> list_or_empty(const fs::path& directory, FileOps& files) {
  auto names = files.list(directory);
  if (!names && names.error().kind == ErrorKind::NotFound) return std::vector<std::string>{};
  return names;
}

// Names of the manifests in `directory`, as paths below `prefix`, newest first.
Result<std::vector<fs::path>> list_manifests(
    const fs::path& directory, const fs::path& prefix, FileOps& files
) {
  GNN_ASSIGN_OR_RETURN(const std::vector<std::string> names, list_or_empty(directory, files));
  std::vector<fs::path> paths;
  for (const std::string& name : names) {
    if (is_manifest(name)) paths.push_back(prefix / name);
  }
  std::ranges::reverse(paths);  // list ascends, and so do the padded numbers
  return paths;
}

bool contains(const std::vector<fs::path>& paths, const fs::path& path) {
  return std::ranges::find(paths, path) != paths.end();
}

// Every fence of the folder, oldest first.
Result<std::vector<NamedFence>> read_fences(const fs::path& directory, FileOps& files) {
  GNN_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.list(directory));
  std::vector<NamedFence> fences;
  for (const std::string& name : names) {
    const auto of = parse_fence(name);
    if (!of) continue;
    auto fence = read_fence(directory / name, files);
    // The writer before this one may have just removed it.
    if (!fence && fence.error().kind == ErrorKind::NotFound) continue;
    if (!fence) return tl::make_unexpected(fence.error());
    fences.push_back({.of = *of, .fence = *std::move(fence)});
  }
  std::ranges::sort(fences, {}, &NamedFence::of);
  return fences;
}

// The highest attempt in a folder of these names; -1 if it was never used.
int64_t highest_attempt(const std::vector<std::string>& names) {
  int64_t highest = -1;
  for (const std::string& name : names) {
    for (const auto& known : {parse_fence(name), parse_attempt(name)}) {
      if (known) highest = std::max(highest, known->attempt);
    }
  }
  return highest;
}

// For calls that only tidy up: what they leave is never read, and goes next time.
void best_effort(const Status& status) {
  static_cast<void>(status);
}

// The checkpoints that attempts before `limit` left and that count, newest first, relative to the
// directory.
Result<std::vector<fs::path>> counted_manifests(
    const fs::path& directory, const FolderAttempt& limit, FileOps& files
) {
  GNN_ASSIGN_OR_RETURN(const std::vector<NamedFence> fences, read_fences(directory, files));
  GNN_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.list(directory));
  // The newest complete fence says what counts: an incomplete one never came to write a checkpoint.
  const NamedFence* newest = nullptr;
  for (const NamedFence& named : fences) {
    if (named.of <= limit && named.fence.complete) newest = &named;
  }
  std::vector<FolderAttempt> attempts;
  for (const std::string& name : names) {
    const auto attempt = parse_attempt(name);
    if (attempt && *attempt < limit) attempts.push_back(*attempt);
  }
  std::ranges::sort(attempts, std::greater<>());
  std::vector<fs::path> counted;
  for (const FolderAttempt& attempt : attempts) {
    const fs::path name = name_of(attempt);
    GNN_ASSIGN_OR_RETURN(
        const std::vector<fs::path> found, list_manifests(directory / name, name, files)
    );
    for (const fs::path& path : found) {
      if (newest == nullptr || attempt == newest->of || contains(newest->fence.inherited, path)) {
        counted.push_back(path);
      }
    }
  }
  return counted;
}

// The first of `candidates` that is valid.
Result<NewestCheckpoint> first_valid(const std::vector<fs::path>& candidates, FileOps& files) {
  NewestCheckpoint result;
  for (const fs::path& path : candidates) {
    auto loaded = load_checkpoint(path, files);
    if (loaded) {
      result.checkpoint = *std::move(loaded);
      return result;
    }
    // A disk that fails now may be read later: starting over would throw training away.
    if (loaded.error().kind == ErrorKind::Io) return tl::make_unexpected(loaded.error());
    result.rejected.push_back({.path = path, .reason = loaded.error().message});
  }
  return result;
}

}  // namespace

CheckpointStore::CheckpointStore(CheckpointOptions options, std::shared_ptr<FileOps> files)
    : options_(std::move(options)), files_(std::move(files)) {}

Result<CheckpointStore> CheckpointStore::begin(
    CheckpointOptions options, Inherit inherit, std::shared_ptr<FileOps> files
) {
  if (options.keep < 1 || options.directory.empty()) {
    return fail(
        ErrorKind::Configuration, "checkpoint: expected a directory and keep of at least 1"
    );
  }
  // "checkpoints/" and "checkpoints" are one directory, whose parent has a name.
  options.directory = fs::absolute(options.directory).lexically_normal();
  if (!options.directory.has_filename()) options.directory = options.directory.parent_path();
  CheckpointStore store(std::move(options), std::move(files));
  if (auto status = store.begin_incarnation(inherit); !status) {
    return tl::make_unexpected(with_context(status.error(), "checkpoint: begin"));
  }
  return store;
}

Status CheckpointStore::claim_folder() {
  GNN_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_->list(options_.directory));
  GNN_ASSIGN_OR_RETURN(
      const std::vector<NamedFence> fences, read_fences(options_.directory, *files_)
  );
  if (!fences.empty()) {
    const Fence& newest = fences.back().fence;
    jobs_ = newest.jobs;
    first_attempt_ = newest.first_attempt;
  }
  const auto known = std::ranges::find(jobs_, options_.incarnation.job_uid);
  if (known == jobs_.end()) {
    jobs_.push_back(options_.incarnation.job_uid);
    first_attempt_ = highest_attempt(names) + 1;
  } else if (std::next(known) != jobs_.end()) {
    return fail(
        ErrorKind::Conflict,
        options_.directory.string() + ": the job with uid " + jobs_.back() +
            " has taken this folder over from this job, " + options_.incarnation.job_uid
    );
  }
  job_has_begun_ = std::ranges::any_of(fences, [&](const NamedFence& named) {
    return named.fence.complete && named.fence.jobs.back() == options_.incarnation.job_uid;
  });
  own_attempt_ = {
      .attempt = first_attempt_ + options_.incarnation.attempt,
      .round = options_.incarnation.round,
  };
  own_directory_ = options_.directory / name_of(own_attempt_);
  return {};
}

Status CheckpointStore::begin_incarnation(Inherit inherit) {
  const fs::path& directory = options_.directory;
  if (auto names = files_->list(directory); !names) {
    if (names.error().kind != ErrorKind::NotFound) return tl::make_unexpected(names.error());
    GNN_RETURN_IF_ERROR(files_->make_directory(directory));
    GNN_RETURN_IF_ERROR(files_->sync_directory(directory.parent_path()));
  }
  GNN_RETURN_IF_ERROR(claim_folder());
  GNN_RETURN_IF_ERROR(check_fence());

  // 1. Stop older writers. 2. List what they left, which is final now. 3. Write the list into the
  // fence.
  const fs::path own_fence = directory / fence_name(own_attempt_);
  auto fence = read_fence(own_fence, *files_);
  if (!fence && fence.error().kind != ErrorKind::NotFound) {
    return tl::make_unexpected(fence.error());
  }
  const bool begun_before =
      fence && fence->complete && fence->jobs.back() == options_.incarnation.job_uid;
  if (!begun_before) GNN_RETURN_IF_ERROR(write_fence(false));
  if (inherit == Inherit::Newest || job_has_begun_) {
    GNN_ASSIGN_OR_RETURN(inherited_, find_inherited());
  }
  GNN_RETURN_IF_ERROR(write_fence(true));
  GNN_RETURN_IF_ERROR(files_->make_directory(own_directory_));
  return files_->sync_directory(directory);
}

Result<std::vector<fs::path>> CheckpointStore::find_inherited() const {
  return counted_manifests(options_.directory, own_attempt_, *files_);
}

Status CheckpointStore::check_fence() const {
  GNN_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_->list(options_.directory));
  for (const std::string& name : names) {
    const auto of = parse_fence(name);
    if (!of || *of < own_attempt_) continue;
    const fs::path path = options_.directory / name;
    if (*of > own_attempt_) {
      return fail(
          ErrorKind::Conflict,
          path.string() + ": attempt " + name_of(*of) + " has begun; this is " +
              name_of(own_attempt_)
      );
    }
    // Two jobs that began at the same moment got the same number: the fence names the later one.
    GNN_ASSIGN_OR_RETURN(const Fence own, read_fence(path, *files_));
    if (own.jobs.back() != options_.incarnation.job_uid) {
      return fail(
          ErrorKind::Conflict,
          path.string() + ": the job with uid " + own.jobs.back() +
              " has begun; this job's uid is " + options_.incarnation.job_uid
      );
    }
  }
  return {};
}

Result<std::optional<std::string>> CheckpointStore::read_file(
    const std::string& name, int64_t max_bytes
) const {
  auto content = files_->read(options_.directory / name, max_bytes);
  if (content) return std::move(*content);
  if (content.error().kind == ErrorKind::NotFound) return std::nullopt;
  return tl::make_unexpected(content.error());
}

Status CheckpointStore::replace_file(const std::string& name, std::string_view content) {
  GNN_RETURN_IF_ERROR(check_fence());
  return replace(options_.directory / name, content);
}

Status CheckpointStore::write_file(const fs::path& path, std::string_view content) {
  return checkpoint::write_file(*files_, path, std::array{content});
}

Status CheckpointStore::replace(const fs::path& path, std::string_view content) {
  return checkpoint::replace_file(*files_, path, std::array{content});
}

Status CheckpointStore::write_fence(bool complete) {
  return replace(
      options_.directory / fence_name(own_attempt_),
      to_text({
          .complete = complete,
          .jobs = jobs_,
          .first_attempt = first_attempt_,
          .inherited = inherited_,
      })
  );
}

Result<NewestCheckpoint> CheckpointStore::load_newest() {
  GNN_ASSIGN_OR_RETURN(const std::vector<fs::path> candidates, manifests());
  return first_valid(candidates, *files_);
}

Result<std::vector<fs::path>> CheckpointStore::manifests() const {
  GNN_ASSIGN_OR_RETURN(
      std::vector<fs::path> paths, list_manifests(own_directory_, own_directory_, *files_)
  );
  for (const fs::path& path : inherited_) paths.push_back(options_.directory / path);
  return paths;
}

Result<SavedCheckpoint> CheckpointStore::save(const CheckpointState& state) {
  auto saved = write_checkpoint(state);
  if (!saved) {
    // A later incarnation may have removed this one's directory: then report that instead.
    if (auto fence = check_fence(); !fence && fence.error().kind == ErrorKind::Conflict) {
      return tl::make_unexpected(with_context(fence.error(), "checkpoint: save"));
    }
    return tl::make_unexpected(with_context(saved.error(), "checkpoint: save"));
  }
  prune();
  return saved;
}

Result<SavedCheckpoint> CheckpointStore::write_checkpoint(const CheckpointState& state) {
  GNN_RETURN_IF_ERROR(check_fence());
  GNN_ASSIGN_OR_RETURN(const EncodedCheckpoint encoded, encode_checkpoint(state));
  GNN_RETURN_IF_ERROR(
      replace(own_directory_ / data_file_name(encoded.data_checksum), encoded.bytes.data)
  );
  const fs::path manifest = own_directory_ / manifest_name(state.global_step);
  const fs::path temporary = temporary_name(manifest);
  GNN_RETURN_IF_ERROR(write_file(temporary, encoded.bytes.manifest));
  GNN_RETURN_IF_ERROR(check_fence());
  GNN_RETURN_IF_ERROR(files_->rename(temporary, manifest));
  GNN_RETURN_IF_ERROR(files_->sync_directory(own_directory_));
  // Whoever began before the rename may have missed it; whoever begins after this line sees it.
  GNN_RETURN_IF_ERROR(check_fence());
  return SavedCheckpoint{
      .path = manifest,
      .bytes = static_cast<int64_t>(encoded.bytes.manifest.size() + encoded.bytes.data.size()),
  };
}

Result<std::optional<fs::path>> CheckpointStore::find(int64_t global_step) const {
  GNN_ASSIGN_OR_RETURN(const std::vector<fs::path> all, manifests());
  for (const fs::path& path : all) {
    if (path.filename() == manifest_name(global_step)) return std::optional(path);
  }
  return std::optional<fs::path>();
}

std::vector<fs::path> CheckpointStore::kept_of(const std::vector<fs::path>& all) const {
  const int64_t newest = std::min(std::max<int64_t>(options_.keep, kAlwaysKept), std::ssize(all));
  std::vector<fs::path> kept(all.begin(), all.begin() + newest);
  if (!kept_step_) return kept;
  const std::string name = manifest_name(*kept_step_);
  const auto also =
      std::ranges::find_if(all, [&](const fs::path& path) { return path.filename() == name; });
  if (also != all.end() && !contains(kept, *also)) kept.push_back(*also);
  return kept;
}

void CheckpointStore::prune() {
  const auto all = manifests();
  if (!all) return;
  const std::vector<fs::path> kept = kept_of(*all);
  std::erase_if(inherited_, [&](const fs::path& path) {
    return !contains(kept, options_.directory / path);
  });
  const auto names = files_->list(options_.directory);
  if (!names) return;
  for (const std::string& name : *names) {
    const auto attempt = parse_attempt(name);
    if (attempt && *attempt <= own_attempt_) {
      sweep(options_.directory / name, kept);
    }
    const auto fence = parse_fence(name);
    if (fence && *fence < own_attempt_) {
      best_effort(files_->remove_file(options_.directory / name));
    }
  }
}

void CheckpointStore::sweep(const fs::path& directory, const std::vector<fs::path>& kept) {
  const auto names = files_->list(directory);
  if (!names) return;
  std::vector<std::string> wanted;
  bool removed_manifest = false;
  for (const std::string& name : *names) {
    if (!is_manifest(name)) continue;
    if (!contains(kept, directory / name)) {
      best_effort(files_->remove_file(directory / name));
      removed_manifest = true;
      continue;
    }
    const auto text = files_->read(directory / name, kMaxManifestBytes);
    const auto summary = text ? read_manifest(*text) : tl::make_unexpected(text.error());
    if (!summary) return;  // its data is unknown, so remove none
    wanted.push_back(summary->data_file);
  }
  // Data goes only once no manifest can name it any more, even if the machine stops here.
  if (removed_manifest && !files_->sync_directory(directory)) return;
  for (const std::string& name : *names) {
    const bool unwanted_data = is_data(name) && std::ranges::find(wanted, name) == wanted.end();
    if (unwanted_data || name.ends_with(kTemporarySuffix)) {
      best_effort(files_->remove_file(directory / name));
    }
  }
  if (wanted.empty() && directory != own_directory_) {
    best_effort(files_->remove_directory(directory));
  }
}

Result<LoadedCheckpoint> load_checkpoint(const fs::path& manifest, FileOps& files) {
  const auto in_manifest = [&](const Error& error) {
    return tl::make_unexpected(with_context(error, manifest.string()));
  };
  auto text = files.read(manifest, kMaxManifestBytes);
  if (!text) return tl::make_unexpected(text.error());
  const auto summary = read_manifest(*text);
  if (!summary) return in_manifest(summary.error());
  const fs::path data_path = manifest.parent_path() / summary->data_file;
  auto data = files.read(data_path, summary->data_bytes);
  if (!data) {
    Error error = data.error();
    // The manifest promised it: this is damage, not absence.
    if (error.kind == ErrorKind::NotFound) error.kind = ErrorKind::Data;
    return in_manifest(error);
  }
  CheckpointBytes bytes{.manifest = *std::move(text), .data = *std::move(data)};
  auto state = decode_checkpoint(bytes);
  if (!state) return in_manifest(state.error());
  for (const auto* tensors : {&state->model, &state->optimizer, &state->embeddings}) {
    if (const auto name = first_not_finite(*tensors)) {
      return in_manifest({.kind = ErrorKind::Data, .message = *name + " holds a NaN or an infinity"}
      );
    }
  }
  return LoadedCheckpoint{.path = manifest, .state = *std::move(state), .bytes = std::move(bytes)};
}

Result<NewestCheckpoint> load_newest_of(const fs::path& directory, FileOps& files) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  GNN_ASSIGN_OR_RETURN(
      std::vector<fs::path> candidates,
      counted_manifests(directory, {.attempt = kAny, .round = kAny}, files)
  );
  for (fs::path& path : candidates) path = directory / path;
  return first_valid(candidates, files);
}

}  // namespace gnn::checkpoint
