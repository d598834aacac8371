#include "controller/runtime/watcher.h"

#include "common/overloaded.h"

#include <algorithm>

namespace gnn::runtime {
namespace {

// Whether the server may still know our resourceVersion after this error.
bool keeps_version(const client::ApiError& error) {
  switch (error.kind) {
    case client::ApiErrorKind::Unauthorized:
    case client::ApiErrorKind::TooManyRequests:
    case client::ApiErrorKind::Server:
    case client::ApiErrorKind::Timeout:
    case client::ApiErrorKind::Network:
    case client::ApiErrorKind::Cancelled:
      return true;
    case client::ApiErrorKind::BadRequest:
    case client::ApiErrorKind::Forbidden:
    case client::ApiErrorKind::NotFound:
    case client::ApiErrorKind::AlreadyExists:
    case client::ApiErrorKind::Conflict:
    case client::ApiErrorKind::Gone:
    case client::ApiErrorKind::Invalid:
    case client::ApiErrorKind::TooLarge:
    case client::ApiErrorKind::Decode:
    case client::ApiErrorKind::Other:
      return false;
  }
  return false;
}

}  // namespace

WatchStep Watcher::step(const WatchInput& input, MonotonicPoint now, RandomSource& random) {
  return std::visit(
      Overloaded{
          [&](const watch_input::ListWanted&) -> WatchStep {
            backoff_.reset();
            return {};
          },
          [&](const watch_input::Listed& listed) {
            resource_version_ = listed.resource_version;
            return watch();
          },
          [&](const watch_input::ListFailed& failed) {
            return wait_then(AfterWait::List, failed.error, "list_failed", random);
          },
          [&](const watch_input::WatchOpened&) -> WatchStep {
            watch_opened_ = now;
            version_at_start_ = resource_version_;
            saw_event_ = false;
            return {.action = WatchAction::Read};
          },
          [&](const watch_input::WatchOpenFailed& failed) {
            if (failed.error.kind == client::ApiErrorKind::Gone) {
              return list_again("gone", random);
            }
            return wait_then(after_refusal(failed.error), failed.error, "open_failed", random);
          },
          [&](const watch_input::EventSeen& event) -> WatchStep {
            const bool known = event.type != client::WatchEventType::Unknown;
            if (known && !event.resource_version.empty()) {
              resource_version_ = event.resource_version;
            }
            if (known && event.type != client::WatchEventType::Bookmark) {
              saw_event_ = true;
              if (now - watch_opened_ >= options_.proven_after) backoff_.reset();
            }
            return {.action = WatchAction::Read};
          },
          [&](const watch_input::ErrorSeen& seen) {
            if (seen.error.kind == client::ApiErrorKind::Gone) return list_again("gone", random);
            return wait_then(AfterWait::List, seen.error, "error_event", random);
          },
          [&](const watch_input::WatchEnded&) { return watch_again({}, now, random); },
          [&](const watch_input::WatchBroken& broken) {
            if (broken.error.kind == ErrorKind::Data) {
              return wait_then(AfterWait::List, {}, "unreadable", random);
            }
            const bool silent = broken.error.kind == ErrorKind::Timeout;
            return watch_again(silent ? "silent" : "broken", now, random);
          },
          [&](const watch_input::Waited&) -> WatchStep {
            if (after_wait_ == AfterWait::Watch) return watch();
            return {};
          },
      },
      input
  );
}

WatchStep Watcher::wait_then(
    AfterWait after, const client::ApiError& error, std::string_view reason, RandomSource& random
) {
  after_wait_ = after;
  Duration wait = backoff_.next(random);
  if (error.retry_after) wait = std::max(wait, *error.retry_after);
  return {.action = WatchAction::Wait, .wait = wait, .reason = reason};
}

// A server that answers lists alone is asked for these: what changes must be seen.
Watcher::AfterWait Watcher::after_refusal(const client::ApiError& error) const {
  const bool refuses_for_long = error.kind == client::ApiErrorKind::Server &&
                                backoff_.attempts() + 1 >= options_.tries_before_list;
  return keeps_version(error) && !refuses_for_long ? AfterWait::Watch : AfterWait::List;
}

WatchStep Watcher::list_again(std::string_view reason, RandomSource& random) {
  // At once the first time; but not in a tight loop if the server says "gone" again soon.
  if (backoff_.attempts() > 0) return wait_then(AfterWait::List, {}, reason, random);
  static_cast<void>(backoff_.next(random));
  return {.action = WatchAction::List, .reason = reason};
}

bool Watcher::was_too_short(Duration lived) {
  if (lived >= options_.shortest_watch) {
    short_watches_ = 0;
    return false;
  }
  if (!saw_event_ || resource_version_ == version_at_start_) return true;
  return ++short_watches_ > options_.free_short_watches;
}

WatchStep Watcher::watch_again(std::string_view reason, MonotonicPoint now, RandomSource& random) {
  const Duration lived = now - watch_opened_;
  if (lived >= options_.healthy_after) backoff_.reset();
  if (was_too_short(lived)) {
    return wait_then(AfterWait::Watch, {}, reason.empty() ? "too_short" : reason, random);
  }
  WatchStep next = watch();
  next.reason = reason;
  return next;
}

}  // namespace gnn::runtime
