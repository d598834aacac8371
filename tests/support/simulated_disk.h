#pragma once

#include "worker/checkpoint/file_ops.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace gnn::testing {

/// A disk in memory that knows what would survive a crash of the machine: file contents that were
/// synced, and changes of a directory after which it was synced. It can fail, write short or crash
/// at any call.
class SimulatedDisk final : public checkpoint::FileOps {
 public:
  using Path = std::filesystem::path;

  enum class Fault {
    Error,       ///< the call fails; a write may have written a part first
    ShortWrite,  ///< a write writes a part of what it was given; other calls are not touched
    Crash,       ///< the machine stops in the call; nothing after it happens
  };
  /// What of the changes that were not synced survives a crash: none, all, or each by the toss of a
  /// coin.
  enum class Survival { None, All, Some };

  SimulatedDisk() { make_durable("/job"); }

  /// Arms one fault at the call with this number (from 0, counted from now).
  void fail_at(int64_t call, Fault fault) {
    fault_ = fault;
    fault_call_ = calls_ + call;
    fired_ = false;
  }
  void disarm() { fault_call_ = -1; }
  /// Runs once, before the call with this number (from 0, counted from now).
  void before_call(int64_t call, std::function<void()> action) {
    action_call_ = calls_ + call;
    action_ = std::move(action);
  }
  [[nodiscard]] bool fired() const { return fired_; }
  [[nodiscard]] bool action_ran() const { return action_call_ >= 0 && !action_; }

  /// The machine starts again with what survived.
  void restart(Survival survival, uint64_t seed) {
    std::mt19937_64 coin(seed);
    const auto survives = [&] {
      if (survival == Survival::Some) return (coin() & 1U) == 0;
      return survival == Survival::All;
    };
    for (const Change& change : pending_) {
      if (survives()) apply(change, durable_);
    }
    pending_.clear();
    std::erase_if(durable_.files, [&](const auto& file) {
      return !durable_.directories.contains(file.first.parent_path());
    });
    for (auto& [path, inode] : durable_.files) {
      if (!survives()) {
        inode->content = inode->synced;
      } else if (survival == Survival::Some && inode->content != inode->synced) {
        // Blocks may have been allocated and not written, or written in part.
        const size_t written = coin() % (inode->content.size() + 1);
        for (size_t i = written; i < inode->content.size(); ++i) inode->content[i] = '\0';
      }
      inode->synced = inode->content;
    }
    now_ = durable_;
    open_.clear();
    crashed_ = false;
    fault_call_ = -1;
  }

  [[nodiscard]] std::vector<Path> paths() const {
    std::vector<Path> result;
    for (const auto& [path, inode] : now_.files) result.push_back(path);
    return result;
  }
  [[nodiscard]] std::string& content(const Path& path) { return now_.files.at(path)->content; }
  void erase(const Path& path) { now_.files.erase(path); }

  [[nodiscard]] Result<int> create(const Path& path) override {
    if (auto stop = enter()) return *stop;
    if (!now_.directories.contains(path.parent_path())) return missing(path);
    auto& inode = now_.files[path];
    if (!inode) {
      inode = std::make_shared<Inode>();
      pending_.push_back({.kind = Change::Link, .path = path, .to = {}, .inode = inode});
    }
    inode->content.clear();
    open_[next_file_] = inode;
    return next_file_++;
  }

  [[nodiscard]] Result<size_t> write(int file, const void* data, size_t size) override {
    const bool now = calls_ == fault_call_ && !crashed_;
    if (now && size > 0) {
      const size_t part = std::max<size_t>(1, size / 2);
      open_.at(file)->content.append(static_cast<const char*>(data), part);
      if (fault_ == Fault::ShortWrite) {
        ++calls_;
        fired_ = true;
        return part;
      }
    }
    if (auto stop = enter()) return *stop;
    open_.at(file)->content.append(static_cast<const char*>(data), size);
    return size;
  }

  [[nodiscard]] Status sync(int file) override {
    if (auto stop = enter()) return *stop;
    open_.at(file)->synced = open_.at(file)->content;
    return {};
  }

  [[nodiscard]] Status close(int file) override {
    if (auto stop = enter()) return *stop;
    open_.erase(file);
    return {};
  }

  [[nodiscard]] Status rename(const Path& from, const Path& to) override {
    if (auto stop = enter()) return *stop;
    if (!now_.files.contains(from)) return missing(from);
    change({.kind = Change::Rename, .path = from, .to = to, .inode = now_.files.at(from)});
    return {};
  }

  [[nodiscard]] Status sync_directory(const Path& path) override {
    if (auto stop = enter()) return *stop;
    if (!now_.directories.contains(path)) return missing(path);
    std::vector<Change> others;
    for (const Change& each : pending_) {
      if (each.path.parent_path() == path) {
        apply(each, durable_);
      } else {
        others.push_back(each);
      }
    }
    pending_ = std::move(others);
    return {};
  }

  [[nodiscard]] Status make_directory(const Path& path) override {
    if (auto stop = enter()) return *stop;
    if (!now_.directories.contains(path.parent_path())) return missing(path);
    if (!now_.directories.contains(path)) {
      change({.kind = Change::MakeDirectory, .path = path, .to = {}, .inode = {}});
    }
    return {};
  }

  [[nodiscard]] Status remove_file(const Path& path) override {
    if (auto stop = enter()) return *stop;
    if (!now_.files.contains(path)) return missing(path);
    change({.kind = Change::Unlink, .path = path, .to = {}, .inode = {}});
    return {};
  }

  [[nodiscard]] Status remove_directory(const Path& path) override {
    if (auto stop = enter()) return *stop;
    for (const auto& [file, inode] : now_.files) {
      if (file.parent_path() == path) return fail(ErrorKind::Io, path.string() + ": not empty");
    }
    change({.kind = Change::RemoveDirectory, .path = path, .to = {}, .inode = {}});
    return {};
  }

  [[nodiscard]] Result<std::vector<std::string>> list(const Path& directory) override {
    if (auto stop = enter()) return *stop;
    if (!now_.directories.contains(directory)) return missing(directory);
    std::set<std::string> names;
    for (const auto& [path, inode] : now_.files) {
      if (path.parent_path() == directory) names.insert(path.filename());
    }
    for (const Path& path : now_.directories) {
      if (path.parent_path() == directory && path != directory) names.insert(path.filename());
    }
    return std::vector<std::string>(names.begin(), names.end());
  }

  [[nodiscard]] Result<std::string> read(const Path& path, int64_t max_bytes) override {
    if (auto stop = enter()) return *stop;
    const auto file = now_.files.find(path);
    if (file == now_.files.end()) return missing(path);
    if (static_cast<int64_t>(file->second->content.size()) > max_bytes) {
      return fail(ErrorKind::Data, path.string() + ": too large");
    }
    return file->second->content;
  }

 private:
  struct Inode {
    std::string content;
    std::string synced;
  };
  struct Tree {
    std::map<Path, std::shared_ptr<Inode>> files;
    std::set<Path> directories;
  };
  struct Change {
    enum Kind { Link, Unlink, Rename, MakeDirectory, RemoveDirectory } kind;
    Path path;
    Path to;
    std::shared_ptr<Inode> inode;
  };

  static tl::unexpected<Error> missing(const Path& path) {
    return fail(ErrorKind::NotFound, path.string() + ": no such file or directory");
  }

  static void apply(const Change& change, Tree& tree) {
    switch (change.kind) {
      case Change::Link:
        tree.files[change.path] = change.inode;
        return;
      case Change::Unlink:
        tree.files.erase(change.path);
        return;
      case Change::Rename:
        tree.files.erase(change.path);
        tree.files[change.to] = change.inode;
        return;
      case Change::MakeDirectory:
        tree.directories.insert(change.path);
        return;
      case Change::RemoveDirectory:
        tree.directories.erase(change.path);
        return;
    }
  }

  void change(const Change& each) {
    apply(each, now_);
    pending_.push_back(each);
  }

  void make_durable(const Path& directory) {
    for (const Path& path : {Path("/"), directory}) {
      now_.directories.insert(path);
      durable_.directories.insert(path);
    }
  }

  std::optional<tl::unexpected<Error>> enter() {
    if (crashed_) return fail(ErrorKind::Io, "the machine has crashed");
    const int64_t call = calls_++;
    if (action_ && call == action_call_) std::exchange(action_, nullptr)();
    if (call != fault_call_) return std::nullopt;
    fired_ = true;
    if (fault_ == Fault::ShortWrite) return std::nullopt;
    crashed_ = fault_ == Fault::Crash;
    return fail(ErrorKind::Io, "no space left on device");
  }

  Tree now_;
  Tree durable_;
  std::vector<Change> pending_;
  std::map<int, std::shared_ptr<Inode>> open_;
  int next_file_ = 3;
  int64_t calls_ = 0;
  int64_t fault_call_ = -1;
  Fault fault_ = Fault::Error;
  bool fired_ = false;
  bool crashed_ = false;
  int64_t action_call_ = -1;
  std::function<void()> action_;
};

}  // namespace gnn::testing
