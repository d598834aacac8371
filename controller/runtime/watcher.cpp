#include "controller/runtime/watcher.h"

#include <algorithm>

namespace gnn::runtime {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

/// Whether the server may still know our resourceVersion after this.
bool keeps_version(const client::ApiError& error) {
  switch (error.kind) {
    case client::ApiErrorKind::kUnauthorized:
    case client::ApiErrorKind::kTooManyRequests:
    case client::ApiErrorKind::kServer:
    case client::ApiErrorKind::kTimeout:
    case client::ApiErrorKind::kNetwork:
    case client::ApiErrorKind::kCancelled:
      return true;
    case client::ApiErrorKind::kBadRequest:
    case client::ApiErrorKind::kForbidden:
    case client::ApiErrorKind::kNotFound:
    case client::ApiErrorKind::kAlreadyExists:
    case client::ApiErrorKind::kConflict:
    case client::ApiErrorKind::kGone:
    case client::ApiErrorKind::kInvalid:
    case client::ApiErrorKind::kDecode:
    case client::ApiErrorKind::kOther:
      return false;
  }
  return false;
}

}  // namespace

WatchStep Watcher::step(const WatchInput& input, MonotonicPoint now, RandomSource& random) {
  return std::visit(
      Overloaded{
          [&](const watch_input::Started&) -> WatchStep { return {}; },
          [&](const watch_input::Listed& listed) {
            resource_version_ = listed.resource_version;
            return watch();
          },
          [&](const watch_input::ListFailed& failed) {
            return wait_then(AfterWait::kList, failed.error, "list_failed", random);
          },
          [&](const watch_input::WatchOpened&) -> WatchStep {
            watch_opened_ = now;
            saw_event_ = false;
            return {.action = WatchAction::kRead};
          },
          [&](const watch_input::WatchOpenFailed& failed) {
            if (failed.error.kind == client::ApiErrorKind::kGone) {
              return list_again("gone", random);
            }
            const AfterWait after =
                keeps_version(failed.error) ? AfterWait::kWatch : AfterWait::kList;
            return wait_then(after, failed.error, "open_failed", random);
          },
          [&](const watch_input::EventSeen& event) -> WatchStep {
            const bool known = event.type != client::WatchEventType::kUnknown;
            if (known && !event.resource_version.empty()) {
              resource_version_ = event.resource_version;
            }
            if (known && event.type != client::WatchEventType::kBookmark) {
              saw_event_ = true;
              backoff_.reset();
            }
            return {.action = WatchAction::kRead};
          },
          [&](const watch_input::ErrorSeen& seen) {
            if (seen.error.kind == client::ApiErrorKind::kGone) return list_again("gone", random);
            return wait_then(AfterWait::kList, seen.error, "error_event", random);
          },
          [&](const watch_input::WatchEnded&) { return watch_again({}, now, random); },
          [&](const watch_input::WatchBroken& broken) {
            if (broken.error.kind == ErrorKind::kData) {
              return wait_then(AfterWait::kList, {}, "unreadable", random);
            }
            const bool silent = broken.error.kind == ErrorKind::kTimeout;
            return watch_again(silent ? "silent" : "broken", now, random);
          },
          [&](const watch_input::Waited&) -> WatchStep {
            if (after_wait_ == AfterWait::kWatch) return watch();
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
  return {.action = WatchAction::kWait, .wait = wait, .reason = reason};
}

WatchStep Watcher::list_again(std::string_view reason, RandomSource& random) {
  // The first time at once; a server that goes on saying "gone" without any event between is not
  // asked in a tight loop.
  if (backoff_.attempts() > 0) return wait_then(AfterWait::kList, {}, reason, random);
  static_cast<void>(backoff_.next(random));
  return {.action = WatchAction::kList, .reason = reason};
}

WatchStep Watcher::watch_again(std::string_view reason, MonotonicPoint now, RandomSource& random) {
  const Duration lived = now - watch_opened_;
  if (lived >= options_.healthy_after) backoff_.reset();
  const bool too_short = !saw_event_ && lived < options_.shortest_watch;
  if (too_short) {
    return wait_then(AfterWait::kWatch, {}, reason.empty() ? "too_short" : reason, random);
  }
  WatchStep next = watch();
  next.reason = reason;
  return next;
}

}  // namespace gnn::runtime
