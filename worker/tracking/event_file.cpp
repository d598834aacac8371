#include "worker/tracking/event_file.h"

#include "worker/tracking/event_encoding.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace gnn::tracking {
namespace {

namespace fs = std::filesystem;

// A process that is started again by hand has the attempt and round of the one before.
constexpr int kMostFilesOfAnIncarnation = 10'000;

std::string reason() {
  return std::generic_category().message(errno);
}

// A name of a file, whatever the environment says the job's name and UID are.
std::string safe_name(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_'; }, '_'
  );
  return text;
}

Status make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (!error) return {};
  return fail(
      ErrorKind::Configuration, "cannot make the folder " + path.string() + ": " + error.message()
  );
}

std::string file_name(const rendezvous::Incarnation& incarnation, int number) {
  char name[80];
  std::snprintf(
      name,
      sizeof name,
      "events.out.tfevents.a%06lld-r%04lld",
      static_cast<long long>(incarnation.attempt),
      static_cast<long long>(incarnation.round)
  );
  return number == 0 ? name : name + ("." + std::to_string(10'000 + number));
}

}  // namespace

EventFile::EventFile(fs::path path, int file) : path_(std::move(path)), file_(file) {}

EventFile::~EventFile() {
  ::close(file_);
}

Result<std::unique_ptr<EventFile>> EventFile::create(
    const fs::path& folder,
    const std::string& job,
    const rendezvous::Incarnation& incarnation,
    TimePoint now
) {
  GNN_RETURN_IF_ERROR(make_folder(folder));
  const fs::path own = folder / safe_name(job + "-" + incarnation.job_uid);
  GNN_RETURN_IF_ERROR(make_folder(own));
  fs::path path;
  int file = -1;
  for (int number = 0; file < 0 && number < kMostFilesOfAnIncarnation; ++number) {
    path = own / file_name(incarnation, number);
    file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0 && errno != EEXIST) break;
  }
  if (file < 0)
    return fail(ErrorKind::Configuration, "cannot make " + path.string() + ": " + reason());
  std::unique_ptr<EventFile> events(new EventFile(std::move(path), file));
  if (Status written = events->append(frame(encode_file_version(now))); !written)
    return fail(ErrorKind::Configuration, written.error().message);
  return events;
}

Status EventFile::append(std::string_view bytes) {
  std::string_view left = bytes;
  while (!left.empty()) {
    const ssize_t written = ::write(file_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const std::string why = written < 0 ? reason() : "nothing was written";
      // Readers stop at half an event, and would never see those that come after it.
      [[maybe_unused]] const int cut = ::ftruncate(file_, bytes_);
      return fail(ErrorKind::Io, "cannot write " + path_.string() + ": " + why);
    }
    left.remove_prefix(static_cast<size_t>(written));
  }
  bytes_ += static_cast<int64_t>(bytes.size());
  return {};
}

Status EventFile::write(std::span<const Record> records, MonotonicPoint /*deadline*/) {
  std::string events;
  for (const Record& record : records) events += frame(encode_event(record));
  return append(events);
}

Status EventFile::close(RunEnd /*end*/, MonotonicPoint /*deadline*/) {
  return {};
}

}  // namespace gnn::tracking
